//! Is every task found, with all that is known of it?

use delayed::__private::{Registration, TaskOptions};
use delayed::{Context, State, Task};
use delayed::{Registry, RegistryError};

mod tasks {
    use super::*;

    /// Sends a mail.
    ///
    ///  Indented by one.
    #[delayed::task(name = "mail.send", queue = "mail", retry = -1)]
    pub(super) async fn send(
        to: String,
        #[task(default)] cc: Vec<(String, [u8; 2])>,
        subject: Option<String>,
        _context: Context,
        #[task(variadic)] files: Vec<std::path::PathBuf>,
        _state: State<u64>,
    ) -> Result<Vec<i64>, std::io::Error> {
        drop((to, cc, subject, files));
        Ok(vec![])
    }

    #[delayed::task]
    pub(super) fn plain() {}

    pub(super) mod twice {
        #[delayed::task(name = "mail.send.again")]
        pub(in super::super) fn first() {}
    }
}

/// A task made by hand, with the name of another.
struct Other;

impl Task for Other {
    fn registration() -> &'static Registration {
        static OTHER: std::sync::LazyLock<Registration> = std::sync::LazyLock::new(|| Registration {
            location: "elsewhere.rs:1",
            ..*tasks::plain::registration()
        });
        &OTHER
    }
}

#[test]
fn all_tasks_are_found_and_sorted() {
    let registry = Registry::collect().unwrap();
    assert!(registry.len() > 3 && !registry.is_empty());
    assert_eq!(registry.iter().len(), registry.len());
    assert!(registry.iter().map(|task| task.name).is_sorted());
    for task in registry.iter() {
        assert_eq!(registry.get(task.name).map(|found| found.location), Some(task.location));
    }
    assert!(registry.get("task::registry::tasks::plain").is_some());
    assert!(registry.get("send").is_none());
    assert!(registry.get("mail.send.again").is_some());
}

#[test]
fn a_registration_keeps_what_the_source_says() {
    let send = tasks::send::registration();
    assert_eq!(send.name, "mail.send");
    assert!(send.location.starts_with("tests/task/registry.rs:"), "{}", send.location);
    assert_eq!(send.doc, "Sends a mail.\n\n Indented by one.");
    assert_eq!(send.options, TaskOptions::DEFAULT.with_queue("mail").with_retry(-1));
    assert_eq!(send.returns, "Result<Vec<i64>, std::io::Error>");
    assert_eq!(send.states.iter().map(|state| state.name).collect::<Vec<_>>(), ["u64"]);
    assert_eq!(tasks::plain::registration().options, TaskOptions::DEFAULT);
    assert_eq!(tasks::plain::registration().doc, "");
}

#[test]
fn a_signature_shows_what_may_be_missing() {
    assert_eq!(
        tasks::send::registration().signature(),
        "async mail.send(to: String, cc: Vec<(String, [u8; 2])> = default, subject: Option<String>, \
         files: ...std::path::PathBuf) -> Result<Vec<i64>, std::io::Error>"
    );
    assert_eq!(tasks::plain::registration().signature(), "plain()");
}

#[test]
fn two_tasks_of_one_name_are_refused() {
    let error = Registry::new().with::<tasks::plain>().unwrap().with::<Other>().unwrap_err();
    let RegistryError::Duplicate { name, first, second } = &error else { panic!("{error}") };
    assert_eq!((*name, *second), ("task::registry::tasks::plain", "elsewhere.rs:1"));
    assert!(first.starts_with("tests/task/registry.rs:"), "{first}");
    assert!(error.to_string().contains(" and at elsewhere.rs:1;"), "{error}");
}

#[test]
fn an_empty_registry_says_why() {
    assert!(Registry::new().is_empty());
    assert!(RegistryError::Empty.to_string().contains("`use my_tasks as _;`"));
}

/// The macro cannot see the rules of the library; here they are held together.
#[test]
fn the_macro_knows_the_same_suffixes() {
    let options = include_str!("../../macros/src/options.rs");
    let listed =
        options.split("SUFFIXES: [&str; 19] =").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    let listed: Vec<&str> = listed.split('"').skip(1).step_by(2).collect();
    assert_eq!(listed, delayed::__private::protocol::names::SUFFIXES);
    let longest = format!("MAX_QUEUE_NAME: usize = {};", delayed::__private::protocol::names::MAX_QUEUE_NAME);
    assert!(options.contains(&longest));
    assert!(options.contains(&format!("QUEUES: &str = {:?};", delayed::__private::protocol::keys::QUEUES)));
    let hidden = |text: &str| -> String {
        let body = text.split("fn is_hidden(").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
        body.split_whitespace().collect()
    };
    assert_eq!(hidden(options), hidden(include_str!("../../src/protocol/names.rs")));
}

#[test]
fn the_macro_reads_sizes_as_the_settings_do() {
    mod sizes {
        #[delayed::task(memory = "3KB", address_space = "2 MiB", output = "1tb")]
        pub(super) fn sized() {}
    }
    let read = |text| delayed::config::parse_size(text).unwrap();
    let limits = sizes::sized::registration().options.limits;
    assert_eq!(limits.memory, Some(read("3KB")));
    assert_eq!(limits.address_space, Some(read("2 MiB")));
    assert_eq!(limits.output, Some(read("1tb")));
}
