//! Computes the hash slot of a key in a Redis Cluster.

/// How many hash slots a Cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The hash slot of a key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = hash_tag(key).unwrap_or(key);
    tag.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ *byte)]) % SLOTS
}

/// The hash tag of a key, which decides its slot: what stands in its first braces, unless that is empty.
pub(crate) fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let begin = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[begin..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &key[begin..begin + length])
}

/// CRC-16/XMODEM, by the highest byte.
const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` of a real server says.
    #[test]
    fn slots_are_those_of_redis() {
        for (key, expected) in [
            ("", 0),
            ("123456789", 12739),
            ("foo", 12182),
            ("{mail}", 4247),
            ("{mail}_noti", 4247),
            ("a{mail}b", 4247),
            ("mail", 4247),
            ("{}mail", 10837),
            ("{delayed:few}:policy", 1433),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn hash_tag_is_in_the_first_braces() {
        for (key, tag) in [("{a}b", Some("a")), ("a{b}{c}", Some("b")), ("a{{b}}", Some("{b"))] {
            assert_eq!(hash_tag(key.as_bytes()), tag.map(str::as_bytes), "{key}");
        }
        for key in ["", "a", "{}", "{}{a}", "{a", "a}b"] {
            assert_eq!(hash_tag(key.as_bytes()), None, "{key}");
        }
    }
}
