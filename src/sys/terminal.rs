//! Asks the terminal of this process for its size.

/// The width in characters of the terminal that is the standard output; `None` if it is not a terminal, or the width is
/// unknown.
pub(crate) fn terminal_width() -> Option<u16> {
    size().map(|size| size.ws_col).filter(|width| *width > 0)
}

/// The same for its height in lines.
pub(crate) fn terminal_height() -> Option<u16> {
    size().map(|size| size.ws_row).filter(|height| *height > 0)
}

#[expect(unsafe_code, reason = "ioctl")]
fn size() -> Option<libc::winsize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: The request writes a `winsize`, and `size` outlives the call.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0).then_some(size)
}
