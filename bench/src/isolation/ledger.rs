//! Which calls ran, when, and in which process? Each run appends a record to a file, in one write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::clock::now;

/// The variable that names the file.
pub const VARIABLE: &str = "BENCH_LEDGER";
const RECORD: usize = 24;

/// Writes that a run of this number began.
pub fn record(number: u64) {
    // A child may have closed what it inherited, and one that is used again need not open it again.
    static LEDGER: OnceLock<(u32, File)> = OnceLock::new();
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&now().to_le_bytes());
    bytes[16..].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
    let open = || {
        let path = std::env::var_os(VARIABLE).expect("the ledger is named");
        OpenOptions::new().append(true).open(path).expect("the ledger opens")
    };
    let (pid, file) = LEDGER.get_or_init(|| (std::process::id(), open()));
    if *pid == std::process::id() {
        let mut file = file;
        file.write_all(&bytes).expect("the ledger takes a record");
    } else {
        open().write_all(&bytes).expect("the ledger takes a record");
    }
}

/// What a run wrote.
#[derive(Clone, Copy)]
pub struct Record {
    pub number: u64,
    /// When, by [`now`].
    pub began: u64,
    pub pid: u32,
}

/// The file of one trial.
pub struct Ledger(PathBuf);

impl Ledger {
    pub fn create(directory: &Path) -> io::Result<Self> {
        let path = directory.join("ledger");
        File::create(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Forgets what was written.
    pub fn clear(&self) -> io::Result<()> {
        OpenOptions::new().write(true).open(&self.0)?.set_len(0)
    }

    /// How many runs began.
    pub fn len(&self) -> u64 {
        std::fs::metadata(&self.0).map_or(0, |metadata| metadata.len() / RECORD as u64)
    }

    /// All of them, in the order in which they began.
    pub fn read(&self) -> io::Result<Vec<Record>> {
        let bytes = std::fs::read(&self.0)?;
        let mut records: Vec<Record> = bytes
            .chunks_exact(RECORD)
            .map(|record| {
                let number =
                    |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
                Record { number: number(0), began: number(8), pid: number(16) as u32 }
            })
            .collect();
        records.sort_by_key(|record| record.began);
        Ok(records)
    }

    /// All of them, when the calls 0 to `count` ran once each, and no other.
    pub fn exactly(&self, count: u64) -> Result<Vec<Record>, String> {
        let records = self.read().map_err(|error| format!("the ledger cannot be read: {error}"))?;
        let mut numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() != records.len() {
            return Err(format!("{} calls ran twice", records.len() - numbers.len()));
        }
        if !numbers.iter().copied().eq(0..count) {
            return Err(format!("{} of {count} calls ran", numbers.len()));
        }
        Ok(records)
    }
}
