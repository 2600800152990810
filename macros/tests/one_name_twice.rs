//! Two tasks of one name are refused where the program starts, with the places of both.

use delayed::{Registry, RegistryError};

#[delayed::task(name = "mail.send")]
fn send() {}

#[delayed::task(name = "mail.send")]
fn send_again() {}

#[test]
fn two_tasks_of_one_name_are_refused() {
    let Err(RegistryError::Duplicate { name, first, second }) = Registry::collect() else {
        panic!("not refused")
    };
    assert_eq!(name, "mail.send");
    for (place, line) in [(first, ":5"), (second, ":8")] {
        assert!(place.contains("one_name_twice.rs") && place.ends_with(line), "{place}");
    }
}
