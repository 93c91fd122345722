//! Results as files.

use std::{io::Write, path::Path, time::SystemTime};

use anyhow::{Context, Result};
use serde::Serialize;

/// When and with what a record was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// Date and time, UTC.
    pub date: String,
    /// Version of Octile.
    pub version: &'static str,
}

impl Provenance {
    /// Now, by this program.
    pub fn now() -> Self {
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Self { date, version: env!("CARGO_PKG_VERSION") }
    }
}

/// Writes `value` as JSON. The file appears whole or not at all.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let write = || -> Result<()> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, value)?;
        writeln!(file)?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
