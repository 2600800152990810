struct Opaque;

#[derive(Debug, serde::Serialize)]
struct Silent;

#[delayed::task]
fn not_serialize() -> Opaque {
    Opaque
}

#[delayed::task]
fn result_not_serialize() -> Result<Opaque, String> {
    Ok(Opaque)
}

#[delayed::task]
fn error_result_not_serialize() -> std::io::Result<Opaque> {
    Ok(Opaque)
}

// `Result<(), Silent>` is `Serialize` as a whole, and still no success.
#[delayed::task]
fn not_display() -> Result<(), Silent> {
    Ok(())
}

#[delayed::task]
async fn not_display_async() -> Result<(), Silent> {
    Ok(())
}

fn main() {}
