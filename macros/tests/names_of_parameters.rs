//! `mut`, `_` before a name, raw names, and names that the generated code might use itself.
#![deny(warnings)]

#[delayed::task]
fn count(mut from: i64, _step: i64, r#type: String) -> i64 {
    from += 1;
    drop(r#type);
    from
}

#[delayed::task]
async fn r#loop(
    arguments: i64,
    reader: i64,
    scope: i64,
    encoder: i64,
    value: i64,
    future: i64,
    returned: i64,
) -> i64 {
    arguments + reader + scope + encoder + value + future + returned
}

#[delayed::task]
fn run(#[task(default = value())] value_0: i64, _: delayed::Context) {
    let _ = value_0;
}

fn value() -> i64 {
    3
}

// A macro gives its types in groups that cannot be seen.
macro_rules! task {
    ($name:ident, $ty:ty, $context:ty) => {
        #[delayed::task]
        fn $name(value: $ty, _context: $context) {
            drop(value);
        }
    };
}
task!(optional, Option<String>, delayed::Context);

#[test]
fn unusual_names_of_parameters_compile() {
    let tasks = delayed::Registry::collect().unwrap();
    assert_eq!(
        tasks.iter().map(|task| task.signature()).collect::<Vec<_>>(),
        [
            "count(from: i64, _step: i64, type: String) -> i64",
            "async loop(arguments: i64, reader: i64, scope: i64, encoder: i64, value: i64, future: i64, returned: i64) \
         -> i64",
            "optional(value: Option<String>)",
            "run(value_0: i64 = default)",
        ]
    );
    let _ = count::call(1, 2, "c".into());
    let _ = r#loop::call(1, 2, 3, 4, 5, 6, 7);
    let _ = run::call(1);
    let _ = optional::call(None);
}
