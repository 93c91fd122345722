//! Results as files.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tempfile::NamedTempFile;

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

/// A JSON file to be: opened before the work, so that a bad path is known at once, and there only when whole.
#[derive(Debug)]
pub struct JsonFile {
    path: PathBuf,
    draft: NamedTempFile,
}

impl JsonFile {
    /// Prepares to write `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            bail!("cannot write {}: there is no folder {}", path.display(), folder.display());
        }
        let draft = draft_in(folder).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), draft })
    }

    /// Writes `value`; only now does the file appear.
    pub fn finish(mut self, value: &impl Serialize) -> Result<()> {
        let mut write = || -> Result<()> {
            serde_json::to_writer_pretty(&mut self.draft, value)?;
            writeln!(self.draft)?;
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))?;
        self.draft.persist(&self.path).with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(())
    }
}

/// Drafts are private by default; a record is for everyone whom the user's umask admits.
fn draft_in(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}
