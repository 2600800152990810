//! Reads forms, and makes buttons that send some.

use std::collections::HashMap;

use maud::{Markup, html};

use super::failure::Failure;
use super::text::is_own;
use super::visit::Visit;
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;

/// What cannot be undone, and is shown so.
const DANGEROUS: [&str; 8] =
    ["purge", "cancel", "kill", "delete", "periodic-remove", "limit-remove", "flow-cancel", "worker-stop"];

/// A form, as it was sent.
#[derive(Debug)]
pub(super) struct Wanted(HashMap<String, String>);

/// What was done.
#[derive(Debug)]
pub(super) struct Done {
    /// A sentence for people.
    pub(super) text: String,
    /// The page to go to, unless it is that from which the form was sent.
    pub(super) to: Option<String>,
}

impl Done {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), to: None }
    }
}

impl Wanted {
    pub(super) fn new(fields: HashMap<String, String>) -> Self {
        Self(fields)
    }

    /// All fields, sorted by name.
    pub(super) fn sorted(&self) -> Vec<(&String, &String)> {
        let mut fields: Vec<(&String, &String)> = self.0.iter().collect();
        fields.sort_unstable();
        fields
    }

    /// A field that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn need(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Failure::invalid(format!("The field `{name}` is missing.")))
    }

    pub(super) fn queue(&self) -> Result<QueueName, Failure> {
        Ok(QueueName::parse(self.need("queue")?)?)
    }

    pub(super) fn queue_or_all(&self) -> Result<Option<QueueName>, Failure> {
        Ok(self.get("queue").map(QueueName::parse).transpose()?)
    }

    pub(super) fn call_id(&self) -> Result<CallId, Failure> {
        Ok(CallId::from(self.need("id")?))
    }

    /// All fields that begin so, without this beginning.
    pub(super) fn beginning<'a>(&'a self, with: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(with)?, value.as_str())))
    }

    /// The page from which it was sent.
    pub(super) fn back(&self) -> &str {
        self.get("back").filter(|back| is_own(back)).unwrap_or("/")
    }
}

/// A button that does something, for those who may.
pub(super) fn button(visit: &Visit, verb: &str, title: &str, fields: &[(&str, &str)]) -> Markup {
    let is_dangerous = DANGEROUS.contains(&verb);
    html! {
        @if visit.can_act() {
            form.act method="post" action=(visit.link("/action", &[])) {
                input type="hidden" name="verb" value=(verb);
                input type="hidden" name="back" value=(visit.here());
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                button.danger[is_dangerous] { (title) }
            }
        }
    }
}
