#[delayed::task(isolation = "process", timeout = "soon", grace = "0s")]
fn words(to: String) {
    drop(to);
}

#[delayed::task(timeout = 30, grace, memory = 256, cpu = "1500ms", output = "1.5MB", address_space = "0GB")]
fn units(to: String) {
    drop(to);
}

#[delayed::task(open_files = 3, nice = -5, no_new_privileges = "yes", private_network, private_mounts = 1)]
fn amounts(to: String) {
    drop(to);
}

#[delayed::task(memory = "256MB", isolation = "inline", timeout = "30s", nice = 10)]
fn inline(to: String) {
    drop(to);
}

fn main() {
    for make in [words::call, units::call, amounts::call, inline::call] {
        let _ = make("ann".into());
    }
}
