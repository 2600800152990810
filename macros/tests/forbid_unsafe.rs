#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "what is public has to be documented")]
#![deny(warnings, missing_docs, unused, nonstandard_style, future_incompatible, rust_2018_idioms)]
//! No generated code is `unsafe`, and none of it warns.

/// The tasks.
pub mod tasks {
    /// Adds.
    #[delayed::task]
    pub fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    /// Sends.
    #[delayed::task(name = "mail.send", queue = "mail", retry = -1)]
    pub async fn send(to: String, #[task(default)] cc: Vec<String>) -> Result<(), String> {
        drop((to, cc));
        Ok(())
    }

    #[delayed::task]
    fn private() {}
}

#[delayed::task]
fn nothing() {}

#[test]
fn generated_code_is_safe_and_does_not_warn() {
    assert_eq!(tasks::add(1, 2), 3);
    assert_eq!(delayed::Registry::collect().map(|tasks| tasks.len()), Ok(4));
    assert_eq!(tasks::send::call("ann".into(), vec![]).task(), "mail.send");
}
