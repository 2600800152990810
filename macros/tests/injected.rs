//! `Context` and `State` do not travel, wherever they stand.
#![deny(warnings)]

use delayed::{Context, State};

struct Limits {
    most: u64,
}

#[delayed::task]
async fn crawl(
    context: Context,
    page: String,
    limits: State<Limits>,
    #[task(variadic)] more: Vec<String>,
    _c: Context,
) {
    assert!(more.len() as u64 <= limits.most, "{page} {}", context.attempt());
}

#[delayed::task]
fn only_state(_: delayed::State<Limits>, _: State<std::collections::HashMap<String, (i64, [u8; 3])>>) {}

#[test]
fn context_and_state_do_not_travel() {
    let tasks = delayed::Registry::collect().unwrap();
    assert_eq!(
        tasks.iter().map(|task| task.signature()).collect::<Vec<_>>(),
        ["async crawl(page: String, more: ...String)", "only_state()",]
    );
    let states: Vec<_> = tasks.iter().flat_map(|task| task.states).map(|state| state.name).collect();
    assert_eq!(states, ["Limits", "Limits", "std::collections::HashMap<String, (i64, [u8; 3])>"]);
    let _ = crawl::call("/".into(), vec![]);
    let _ = only_state::call();
}
