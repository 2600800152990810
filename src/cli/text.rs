//! Writes the fields of a log line for people: a value that could be taken for several is quoted.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes `name=value`; the message stands for itself.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_empty: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct Line<'w> {
    writer: Writer<'w>,
    is_empty: bool,
    result: fmt::Result,
}

impl Line<'_> {
    fn put(&mut self, name: &str, value: &str) -> fmt::Result {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.writer.write_char(' ')?;
        }
        if name == "message" {
            return value.chars().try_for_each(|character| match character {
                '\n' | '\t' => self.writer.write_char(character),
                _ if character.is_control() => write!(self.writer, "{}", character.escape_default()),
                _ => self.writer.write_char(character),
            });
        }
        let name = name.strip_prefix("r#").unwrap_or(name);
        if self.writer.has_ansi_escapes() {
            write!(self.writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?;
        } else {
            write!(self.writer, "{name}=")?;
        }
        if is_plain(value) { self.writer.write_str(value) } else { write!(self.writer, "{value:?}") }
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        // The fields that a record of the crate `log` brings are in the line's head already.
        if self.result.is_ok() && !field.name().starts_with("log.") {
            self.result = self.put(field.name(), value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Whether a value is one word, and stays one word in a line.
fn is_plain(value: &str) -> bool {
    let parts = |character: char| {
        character.is_whitespace() || character.is_control() || matches!(character, '"' | '=' | '\\')
    };
    !value.is_empty() && !value.contains(parts)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn values_with_spaces_or_quotes_are_quoted() {
        let page = Page::default();
        let writer = page.clone();
        let subscriber = fmt()
            .fmt_fields(Fields)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = "it said \"no\"\nand left";
            let span = tracing::info_span!("run", task = "mail.send", name = "two words");
            let _entered = span.enter();
            tracing::info!(plain = "word", number = 7, %error, ?error, empty = "", none = None::<u8>, "a message");
        });
        let written = String::from_utf8(page.0.lock().expect("no panic").clone()).expect("it is UTF-8");
        assert_eq!(
            written,
            " INFO run{task=mail.send name=\"two words\"}: a message plain=word number=7 \
             error=\"it said \\\"no\\\"\\nand left\" error=\"\\\"it said \\\\\\\"no\\\\\\\"\\\\nand left\\\"\" empty=\"\"\n"
        );
    }
}
