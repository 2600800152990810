//! Serves the style, the script and the icon.

use std::sync::OnceLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// A file that is part of the program.
#[derive(Debug)]
pub(super) struct Asset {
    content: &'static str,
    kind: &'static str,
    version: OnceLock<String>,
}

pub(super) static STYLE: Asset = Asset::new(include_str!("assets/style.css"), "text/css; charset=utf-8");
pub(super) static SCRIPT: Asset = Asset::new(include_str!("assets/app.js"), "text/javascript; charset=utf-8");
pub(super) static ICON: Asset = Asset::new(include_str!("assets/icon.svg"), "image/svg+xml");

impl Asset {
    const fn new(content: &'static str, kind: &'static str) -> Self {
        Self { content, kind, version: OnceLock::new() }
    }

    /// What changes with the content.
    pub(super) fn version(&self) -> &str {
        self.version.get_or_init(|| {
            let digest = Sha256::digest(self.content);
            digest[..6].iter().map(|byte| format!("{byte:02x}")).collect()
        })
    }

    /// The file. Its link changes with it, so that it may be kept for ever.
    pub(super) fn answer(&'static self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, self.kind),
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        ];
        (headers, self.content).into_response()
    }
}
