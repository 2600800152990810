//! Decides how many messages to read at a time: few large ones, many small ones.

/// About how many bytes to read at a time.
const BYTES: usize = 1 << 20;
/// By how much more is read after messages that were small.
const GROWTH: u64 = 8;

/// The number of messages to read at a time, learnt from the sizes of those before.
#[derive(Debug)]
pub(super) struct Portion {
    count: u64,
    most: u64,
}

impl Portion {
    /// Nothing is known of the messages yet, and at most so many are to be read at a time.
    pub(super) fn new(most: usize) -> Self {
        Self { count: 1, most: most as u64 }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Learns from the sizes of messages that were read.
    pub(super) fn learn(&mut self, sizes: impl Iterator<Item = usize>) {
        let (bytes, messages) = sizes.fold((0, 0), |(bytes, messages), size| (bytes + size, messages + 1));
        let fit = BYTES / (bytes / messages.max(1)).max(1);
        self.count = (self.count * GROWTH).min(fit as u64).clamp(1, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_are_read_one_by_one_and_small_ones_together() {
        let mut portion = Portion::new(500);
        let mut next = |size: usize| {
            portion.learn(std::iter::repeat_n(size, 3));
            portion.count()
        };
        assert_eq!([next(100), next(100), next(100), next(100)], [8, 64, 500, 500]);
        assert_eq!([next(100_000), next(5_000_000), next(0), next(0)], [10, 1, 8, 64]);
    }
}
