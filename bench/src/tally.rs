//! Which calls ran, how often, when, and when were they sent? A file that all processes map, so that a run costs one
//! store and nobody asks the workers. For each call it has 8 bytes for when it was sent, then for each 8 bytes for when
//! it began, both little-endian nanoseconds of the monotonic clock, then for each a byte that counts its runs.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use memmap2::MmapRaw;

use crate::clock::now;

/// The variable that names the file.
pub const VARIABLE: &str = "BENCH_TALLY";
const EACH: usize = 17;

pub struct Tally {
    map: MmapRaw,
    calls: usize,
}

impl Tally {
    fn map(file: &File) -> io::Result<Self> {
        let map = MmapRaw::map_raw(file)?;
        let calls = map.len() / EACH;
        Ok(Self { map, calls })
    }

    /// The one that the environment names, of a process that runs calls or sends them.
    pub fn of_environment() -> &'static Self {
        static TALLY: OnceLock<Tally> = OnceLock::new();
        TALLY.get_or_init(|| {
            let path = std::env::var_os(VARIABLE).expect("the tally is named");
            let file = OpenOptions::new().read(true).write(true).open(path).expect("the tally opens");
            Self::map(&file).expect("the tally is mapped")
        })
    }

    /// A run of this call began.
    pub fn count(&self, number: u64) {
        self.runs(number as usize).fetch_add(1, Ordering::Release);
    }

    /// A run of this call began, now.
    pub fn mark(&self, number: u64) {
        self.time(self.calls + number as usize).store(now(), Ordering::Relaxed);
        self.count(number);
    }

    /// This call was sent.
    pub fn sent(&self, number: u64, at: u64) {
        self.time(number as usize).store(at, Ordering::Relaxed);
    }

    /// How often it ran.
    fn runs(&self, number: usize) -> &AtomicU8 {
        assert!(number < self.calls, "a call that was sent");
        // SAFETY: it lies in the map, which lives as long as `self`, and every process reads and writes it as a byte.
        unsafe { AtomicU8::from_ptr(self.map.as_mut_ptr().add(2 * 8 * self.calls + number)) }
    }

    fn time(&self, place: usize) -> &AtomicU64 {
        assert!(place < 2 * self.calls, "a call that was sent");
        // SAFETY: as above; maps begin at a page, so that it is aligned.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(8 * place).cast()) }
    }
}

/// What whoever measures needs.
#[allow(dead_code, reason = "peers only write")]
impl Tally {
    /// An empty one for the calls 0 to `calls`.
    pub fn create(path: &Path, calls: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(calls * EACH as u64)?;
        Self::map(&file)
    }

    /// How many of the calls below `end` ran. `before` is a number below which all are known to have run, and grows.
    pub fn ran(&self, before: &mut u64, end: u64) -> u64 {
        while *before < end && self.runs(*before as usize).load(Ordering::Acquire) > 0 {
            *before += 1;
        }
        let rest = (*before..end).filter(|number| self.runs(*number as usize).load(Ordering::Relaxed) > 0);
        *before + rest.count() as u64
    }

    /// An error unless all calls ran once.
    pub fn exactly_once(&self) -> Result<(), String> {
        let times = |wanted: fn(u8) -> bool| {
            (0..self.calls).filter(|number| wanted(self.runs(*number).load(Ordering::Acquire))).count()
        };
        match (times(|runs| runs == 0), times(|runs| runs > 1)) {
            (0, 0) => Ok(()),
            (missing, 0) => Err(format!("{missing} of {} calls did not run", self.calls)),
            (_, more) => Err(format!("{more} of {} calls ran more than once", self.calls)),
        }
    }

    /// Milliseconds from when it was sent until it began.
    pub fn waited(&self, number: u64) -> f64 {
        let sent = self.time(number as usize).load(Ordering::Relaxed);
        let began = self.time(self.calls + number as usize).load(Ordering::Relaxed);
        crate::clock::seconds(sent, began) * 1e3
    }
}
