//! Frames pages that need no visitor, and says what all pages load.

use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use super::assets::{SCRIPT, STYLE};
use super::failure::Failure;
use super::text::link;

/// What all pages load.
pub(super) fn head(base: &str, title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · delayed" }
            // A long table that is shown while it arrives would move.
            link rel="expect" href="#end" blocking="render";
            link rel="icon" href=(link(base, "/assets/icon.svg", &[])) type="image/svg+xml";
            link rel="stylesheet" href=(link(base, "/assets/style.css", &[("v", STYLE.version())]));
            script src=(link(base, "/assets/app.js", &[("v", SCRIPT.version())])) {}
        }
    }
}

/// A page without navigation, for somebody who may not see the dashboard.
pub(super) fn bare(base: &str, failure: &Failure) -> (StatusCode, Markup) {
    (failure.status, plain(base, failure.title, &html! { h1 { (failure.title) } p { (failure.text) } }))
}

/// A page without navigation.
pub(super) fn plain(base: &str, title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(base, title))
            body.plain { main #content { (body) } span #end {} }
        }
    }
}
