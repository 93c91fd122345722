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

/// A file to be: opened before the work, so that a bad path is known at once, and there only when whole.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    draft: NamedTempFile,
}

impl OutputFile {
    /// Prepares to write `path`. A link is followed; what is no regular file is left alone.
    pub fn open(path: &Path) -> Result<Self> {
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if target.exists() && !target.is_file() {
            bail!("cannot write {}: it exists, and is not a regular file", path.display());
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            bail!("cannot write {}: there is no folder {}", path.display(), folder.display());
        }
        let draft = draft_in(folder).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: target, draft })
    }

    /// Writes `value` as JSON.
    pub fn finish(self, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        self.finish_with(&text)
    }

    /// Writes `text`; only now does the file appear.
    pub fn finish_with(mut self, text: &str) -> Result<()> {
        let context = format!("cannot write {}", self.path.display());
        self.draft.write_all(text.as_bytes()).with_context(|| context.clone())?;
        self.draft.persist(&self.path).map_err(|failure| failure.error).context(context)?;
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
