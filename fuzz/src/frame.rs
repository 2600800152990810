//! What a child writes to its worker is not trusted, nor is what a worker writes to a child that a task has broken:
//! no bytes make a frame panic, and what is read is written and read again.

use delayed::__private::read_frames;

pub(crate) fn target(bytes: &[u8]) {
    for (kind, frame) in read_frames(bytes).into_iter().enumerate() {
        let Some((text, written)) = frame else { continue };
        let again = &read_frames(&written)[kind];
        assert_eq!(again.as_ref(), Some(&(text, written.clone())));
        let longer = [&written[..], &[0xc0]].concat();
        assert!(read_frames(&longer)[kind].is_none(), "read in spite of what follows it");
        for end in 0..written.len().min(64) {
            assert!(read_frames(&written[..end])[kind].is_none(), "read from {end} bytes of it");
        }
    }
}
