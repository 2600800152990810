//! Asks the terminal of this process for its width.

/// The width in characters of the terminal that is the standard output; `None` if it is not a terminal, or the width is
/// unknown.
#[expect(unsafe_code, reason = "ioctl")]
pub(crate) fn terminal_width() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: The request writes a `winsize`, and `size` outlives the call.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(size.ws_col)
}
