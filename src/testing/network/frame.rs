//! Where does a value of the Redis protocol end, and which words does a request have? Versions 2 and 3.

/// How many bytes the first whole value takes.
pub(super) fn frame(bytes: &[u8]) -> Option<usize> {
    let line = line(bytes)?;
    let mut end = line + 2;
    match bytes[0] {
        b'$' | b'=' | b'!' => end += usize::try_from(number(&bytes[..line])?).map_or(0, |length| length + 2),
        kind @ (b'*' | b'~' | b'>' | b'%' | b'|') => {
            let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
            // Attributes stand before the value that they are of.
            let more = i64::from(kind == b'|');
            for _ in 0..number(&bytes[..line])? * each + more {
                end += frame(bytes.get(end..)?)?;
            }
        }
        _ => {}
    }
    (end <= bytes.len()).then_some(end)
}

/// The words of a request; none when it is not a list of strings, as a line that was typed.
pub(super) fn words(request: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = request.strip_prefix(b"*").and_then(|_| request.get(line(request)? + 2..))?;
    let mut words = Vec::new();
    while !rest.is_empty() {
        let end = line(rest)?;
        let length = usize::try_from(number(&rest[..end])?).ok()?;
        words.push(rest.get(end + 2..end + 2 + length)?);
        rest = rest.get(end + 2 + length + 2..)?;
    }
    Some(words)
}

/// Where the first line ends.
fn line(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

/// The number behind the first character of a line.
fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line.get(1..)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_ends_of_frames() {
        for (bytes, length) in [
            (&b"+OK\r\n:1\r\n"[..], Some(5)),
            (b"$-1\r\n", Some(5)),
            (b"*2\r\n$3\r\na\r\n\r\n:2\r\n", Some(17)),
            (b"*2\r\n$1\r\na\r\n:2\r\n+", Some(15)),
            (b"*-1\r\n", Some(5)),
            (b"%1\r\n+a\r\n*1\r\n:1\r\n", Some(16)),
            (b"|1\r\n+a\r\n:1\r\n:2\r\n:3\r\n", Some(16)),
            (b"$5\r\nab", None),
            (b"*1\r\n", None),
        ] {
            assert_eq!(frame(bytes), length, "expected this end in {:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn finds_the_words_of_a_request() {
        let found = words(b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n").expect("a list of strings");
        assert_eq!(found, [&b"GET"[..], b"a\r\nb"]);
        assert_eq!(words(b"PING\r\n"), None);
        assert_eq!(words(b"*1\r\n:1\r\n"), None);
    }
}
