//! Where does a value of the Redis protocol end? Versions 2 and 3.

/// How many bytes the first whole value takes.
pub(super) fn frame(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let number = || std::str::from_utf8(&bytes[1..line]).ok()?.parse::<i64>().ok();
    let mut end = line + 2;
    match bytes[0] {
        b'$' | b'=' | b'!' => end += usize::try_from(number()?).map_or(0, |length| length + 2),
        kind @ (b'*' | b'~' | b'>' | b'%') => {
            for _ in 0..number()? * if kind == b'%' { 2 } else { 1 } {
                end += frame(bytes.get(end..)?)?;
            }
        }
        _ => {}
    }
    (end <= bytes.len()).then_some(end)
}

#[test]
fn finds_the_ends_of_frames() {
    for (bytes, length) in [
        (&b"+OK\r\n:1\r\n"[..], Some(5)),
        (b"$-1\r\n", Some(5)),
        (b"*2\r\n$3\r\na\r\n\r\n:2\r\n", Some(17)),
        (b"*2\r\n$1\r\na\r\n:2\r\n+", Some(15)),
        (b"*-1\r\n", Some(5)),
        (b"%1\r\n+a\r\n*1\r\n:1\r\n", Some(16)),
        (b"$5\r\nab", None),
        (b"*1\r\n", None),
    ] {
        assert_eq!(frame(bytes), length, "expected this end in {:?}", String::from_utf8_lossy(bytes));
    }
}
