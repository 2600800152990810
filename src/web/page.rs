//! Lays out a page: navigation, notice, and content.

use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::failure::Failure;
use super::frame::head;
use super::text::number;
use super::visit::Visit;
use crate::protocol::call_state::CallState;

/// What a page shows.
#[derive(Debug)]
pub(super) struct View {
    pub(super) title: String,
    /// The part of the dashboard that it belongs to.
    pub(super) section: Section,
    pub(super) body: Markup,
}

/// A part of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Queues,
    Calls,
    Workers,
    Tasks,
    Periodic,
    Limits,
    Flows,
    Dead,
    Doctor,
    Audit,
    Nothing,
}

/// The parts of the dashboard: what they are called, where they are, and which key leads to them after `g`.
const SECTIONS: [(Section, &str, &str, char); 11] = [
    (Section::Overview, "Overview", "/", 'o'),
    (Section::Queues, "Queues", "/queues", 'q'),
    (Section::Calls, "Calls", "/calls", 'c'),
    (Section::Workers, "Workers", "/workers", 'w'),
    (Section::Tasks, "Tasks", "/tasks", 't'),
    (Section::Periodic, "Periodic", "/periodic", 'p'),
    (Section::Limits, "Limits", "/limits", 'l'),
    (Section::Flows, "Flows", "/flows", 'f'),
    (Section::Dead, "Dead letters", "/dead", 'd'),
    (Section::Doctor, "Doctor", "/doctor", 'x'),
    (Section::Audit, "Audit log", "/audit", 'a'),
];

/// A whole page.
fn page(visit: &Visit, view: &View, notice: Option<&str>, is_live: bool) -> Markup {
    let name = visit.visitor.name.as_deref();
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&visit.base, &view.title))
            body data-live=[is_live.then_some("yes")] {
                a.skip href="#content" { "Skip to the content" }
                header {
                    a.brand href=(visit.link("/", &[])) { "delayed" }
                    form.search role="search" action=(visit.link("/calls", &[])) {
                        label.hidden for="search" { "Find a call by its id" }
                        input #search type="search" name="id" placeholder="Find a call by its id" autocomplete="off";
                    }
                    div.tools {
                        @if !visit.can_act() { span.badge { "read-only" } }
                        button #theme type="button" aria-label="Change the theme" { "◐" }
                        button #help-button type="button" aria-label="Keyboard shortcuts" { "?" }
                        @if let Some(name) = name {
                            span.name { (name) }
                            @if visit.shared.access.users().is_some() {
                                form method="post" action=(visit.link("/logout", &[])) { button { "Log out" } }
                            }
                        }
                    }
                }
                nav aria-label="Sections" {
                    @for (section, title, path, key) in SECTIONS {
                        a href=(visit.link(path, &[])) data-key=(key)
                            aria-current=[(section == view.section).then_some("page")] { (title) }
                    }
                }
                div #trouble role="alert" hidden {}
                @if let Some(notice) = notice {
                    div.notice role="status" { (notice) }
                }
                main #content tabindex="-1" { (view.body) }
                (help())
                span #end {}
            }
        }
    }
}

fn help() -> Markup {
    let keys = SECTIONS.iter().map(|(_, title, _, key)| (format!("g {key}"), *title));
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keyboard shortcuts" }
            dl.keys {
                dt { kbd { "/" } } dd { "Find a call" }
                dt { kbd { "?" } } dd { "This help" }
                dt { kbd { "t" } } dd { "Light or dark" }
                @for (key, title) in keys {
                    dt { kbd { (key) } } dd { (title) }
                }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// The content of a page that cannot be shown.
fn trouble(failure: &Failure) -> View {
    View {
        title: failure.title.to_owned(),
        section: Section::Nothing,
        body: html! {
            h1 { (failure.title) }
            p.problem { (failure.text) }
        },
    }
}

/// A table that scrolls by itself where it is too wide.
pub(super) fn table(caption: &str, heads: &[&str], rows: &[Markup], nothing: &str) -> Markup {
    html! {
        @if rows.is_empty() {
            p.empty { (nothing) }
        } @else {
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table {
                    caption.hidden { (caption) }
                    thead { tr { @for head in heads { th scope="col" { (head) } } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    }
}

/// Names and values, without those that have no value.
pub(super) fn facts(facts: &[(&str, Option<Markup>)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                @if let Some(value) = value { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// A number in a cell, faint if it is 0.
pub(super) fn count(value: u64) -> Markup {
    html! { td.number.faint[value == 0] { (number(value)) } }
}

/// A number with a name.
pub(super) fn card(name: &str, value: &str, href: &str, class: Option<&str>) -> Markup {
    html! { a class={ "card " (class.unwrap_or_default()) } href=(href) { span.value { (value) } span { (name) } } }
}

/// The state of a call, in its color.
pub(super) fn badge(state: CallState) -> Markup {
    let class = match state {
        CallState::Dead => "bad",
        CallState::Retrying | CallState::Expired | CallState::Cancelled => "warn",
        CallState::Succeeded => "good",
        CallState::Running => "busy",
        _ => "",
    };
    html! { span class={ "badge " (class) } { (state.name()) } }
}

/// Links to earlier and later pages.
pub(super) fn pager(before: Option<String>, after: Option<String>) -> Markup {
    html! {
        @if before.is_some() || after.is_some() {
            nav.pager aria-label="Pages" {
                @if let Some(before) = before { a rel="prev" href=(before) { "← Previous" } }
                @if let Some(after) = after { a rel="next" href=(after) { "Next →" } }
            }
        }
    }
}

/// A form to choose what is listed.
pub(super) fn filter(action: &str, fields: &Markup) -> Markup {
    html! { form.filter role="search" aria-label="Filter" action=(action) { (fields) button { "Filter" } } }
}

/// A text field with a name.
pub(super) fn field(id: &str, name: &str, value: Option<&str>) -> Markup {
    html! {
        label for={ "f-" (id) } { (name) }
        input id={ "f-" (id) } name=(id) value=[value] autocomplete="off";
    }
}

/// A choice of queues.
pub(super) fn queue_field(names: &[String], chosen: Option<&str>) -> Markup {
    html! {
        label for="f-queue" { "Queue" }
        select #f-queue name="queue" {
            option value="" { "all" }
            @for name in names {
                option value=(name) selected[chosen == Some(name.as_str())] { (name) }
            }
        }
    }
}

/// A page or the reason why there is none. A live one asks for what changes.
pub(super) fn answer(
    visit: &Visit,
    view: Result<View, Failure>,
    notice: Option<&str>,
    is_live: bool,
) -> Response {
    match view {
        Ok(view) => page(visit, &view, notice, is_live).into_response(),
        Err(failure) => (failure.status, page(visit, &trouble(&failure), notice, is_live)).into_response(),
    }
}
