use std::borrow::Cow;

#[delayed::task]
fn named<'a>(text: Cow<'a, str>) {
    let _ = text;
}

#[delayed::task]
fn elided(text: Cow<'_, str>) -> Cow<'_, str> {
    text
}

fn main() {
    named("".into());
    elided("".into());
}
