//! The output of a child on its standard streams: logs it line by line, and keeps its beginning and end.

use tracing::Span;

use crate::excerpt::Excerpt;
use crate::runner::forward::{Origin, in_one_line};

/// Longer lines are logged in pieces.
const LONGEST_LINE: usize = 4 << 10;

/// The mark that a reused child writes after the output of an ended run that was not read yet.
pub(super) const MARK: &[u8] = b"\0\x16delayed: end\x16\0";

/// The output of a child in this run.
#[derive(Debug, Default)]
pub(super) struct Output {
    kept: Excerpt,
    unlogged: Vec<u8>,
    /// Bytes that may be the beginning of a mark.
    held: Vec<u8>,
    /// Whether a mark was found, and the output after it, which belongs to a later run.
    is_marked: bool,
    later: Vec<u8>,
}

impl Output {
    /// Adds bytes that were read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.is_marked {
            self.later.extend_from_slice(bytes);
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        if let Some(at) = held.windows(MARK.len()).position(|window| window == MARK) {
            self.is_marked = true;
            self.later = held.split_off(at + MARK.len());
            held.truncate(at);
        } else {
            let begins = |length: &usize| held.ends_with(&MARK[..*length]);
            let length = (1..MARK.len()).rev().find(begins).unwrap_or(0);
            self.held = held.split_off(held.len() - length);
        }
        self.take(&held);
    }

    /// Whether all output up to the end of the run has arrived.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked
    }

    fn take(&mut self, bytes: &[u8]) {
        self.kept.push(bytes);
        self.unlogged.extend_from_slice(bytes);
    }

    /// Logs the complete lines.
    pub(super) fn log(&mut self, origin: Origin<'_>) {
        let unlogged = std::mem::take(&mut self.unlogged);
        let mut rest = &unlogged[..];
        while let Some((line, more)) = split(rest) {
            write(line, origin);
            rest = more;
        }
        self.unlogged = rest.to_vec();
    }

    /// Logs the last line even if it is incomplete, and resets for another run. Returns the output, shortened.
    pub(super) fn finish(&mut self, origin: Origin<'_>) -> String {
        let held = std::mem::take(&mut self.held);
        self.take(&held);
        self.log(origin);
        write(&std::mem::take(&mut self.unlogged), origin);
        let text = std::mem::take(&mut self.kept).into_text();
        self.is_marked = false;
        let later = std::mem::take(&mut self.later);
        self.push(&later);
        text
    }

    /// How many bytes were written in this run.
    pub(super) fn total(&self) -> u64 {
        self.kept.total()
    }
}

/// The first line, or a piece of a line that is too long, and the rest; `None` if the line may continue.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().take(LONGEST_LINE + 1).position(|byte| *byte == b'\n');
    match end {
        Some(end) => Some((&text[..end], &text[end + 1..])),
        None => text.split_at_checked(LONGEST_LINE),
    }
}

fn write(line: &[u8], origin: Origin<'_>) {
    if !line.is_empty() {
        let line = in_one_line(String::from_utf8_lossy(line).trim_end_matches('\r'));
        let Origin { task, queue, pid, span } = origin;
        let _entered = span.map(Span::enter);
        tracing::info!(target: "delayed::output", line, task, queue, pid, "task output");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::excerpt::excerpt;

    #[test]
    fn the_ends_are_kept_whatever_the_pieces() {
        let origin = Origin { task: "t", queue: "q", pid: 1, span: None };
        let text: Vec<u8> = (0..100_000_u32).map(|i| b'a' + u8::try_from(i % 26).unwrap()).collect();
        for size in [1, 7, 4096, 100_000] {
            let mut output = Output::default();
            for piece in text.chunks(size) {
                output.push(piece);
                output.log(origin);
            }
            assert_eq!(output.total(), 100_000);
            let kept = output.finish(origin);
            assert_eq!(kept, excerpt(str::from_utf8(&text).unwrap()), "in pieces of {size}");
            assert_eq!((output.total(), output.finish(origin).as_str()), (0, ""));
        }
    }

    #[test]
    fn each_run_has_its_own_whatever_the_pieces() {
        let origin = Origin { task: "t", queue: "q", pid: 1, span: None };
        let text = [b"one\n\0", MARK, b"two", &MARK[..5], MARK, b"", MARK, b"\0four\0"].concat();
        for size in 1..=text.len() {
            let mut output = Output::default();
            text.chunks(size).for_each(|piece| output.push(piece));
            assert!(output.is_marked());
            let runs: Vec<String> = (0..4).map(|_| output.finish(origin)).collect();
            let second = format!("two{}", String::from_utf8_lossy(&MARK[..5]));
            assert_eq!(runs, ["one\n\0", &second, "", "\0four\0"], "in pieces of {size}");
            assert_eq!((output.total(), output.is_marked(), output.finish(origin).as_str()), (0, false, ""));
        }
    }

    #[test]
    fn a_line_ends_with_its_end_or_is_too_long() {
        let long = vec![b'x'; LONGEST_LINE];
        assert_eq!(split(b"a\nb\n"), Some((&b"a"[..], &b"b\n"[..])));
        assert_eq!(split(b"\n"), Some((&b""[..], &b""[..])));
        assert_eq!((split(b""), split(b"half a li"), split(&long[1..])), (None, None, None));
        assert_eq!(split(&long), Some((&long[..], &b""[..])));
        assert_eq!(split(&[&long[..], b"\n"].concat()), Some((&long[..], &b""[..])));
        assert_eq!(split(&[&long[..], b"y\n"].concat()), Some((&long[..], &b"y\n"[..])));
    }
}
