#[delayed::task]
#[allow(clippy::too_many_arguments)]
fn many(
    a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: u8, n: u8, o: u8, p: u8,
    context: delayed::Context,
    q: u8,
    r: u8,
) {
    let _ = (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, context);
}

fn main() {
    let _ = many;
}
