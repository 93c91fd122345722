//! Paths read from files.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize, de::Error};

/// A relative path without `..`, which stays in the folder that it is joined to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PlainPath(String);

impl PlainPath {
    /// Checks a path with `/` between components. `None` if it is absolute, contains `..`, or means something
    /// else on another system.
    pub fn new(path: &str) -> Option<Self> {
        // On Windows, a backslash separates components and a colon follows a drive.
        let is_bad = |c: char| c.is_control() || matches!(c, '\\' | ':');
        let is_plain = |component: &str| !matches!(component, "" | "." | "..");
        let plain = !path.contains(is_bad) && path.split('/').all(is_plain);
        plain.then(|| Self(path.to_owned()))
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path, for joining to a folder.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Returns the folders above the last component, or an empty string.
    pub fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Returns the last component.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for PlainPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for PlainPath {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let path = String::deserialize(from)?;
        Self::new(&path).ok_or_else(|| {
            D::Error::custom(format_args!("{path:?} is not a path inside this folder: use names joined by /"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_components_are_accepted() {
        for path in ["kernel.ptx", "quantize/kernel.ptx", "a b/c", ".hidden", "..a", "ä"] {
            let plain = PlainPath::new(path).unwrap();
            let joined = Path::new("/folder").join(plain.as_path());
            assert!(joined.starts_with("/folder") && joined.ends_with(path), "{path}");
        }
        let refused = [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/..",
            ".",
            "./a",
            "a/./b",
            "a//b",
            "a/",
            "a\\b",
            "\\\\host\\a",
            "C:\\a",
            "C:a",
            "a\0b",
            "a\nb",
            "\u{1b}[31m",
        ];
        for path in refused {
            assert_eq!(PlainPath::new(path), None, "{path:?}");
            let read = serde_json::from_value::<PlainPath>(path.into());
            assert!(read.unwrap_err().to_string().contains("is not a path inside this folder"));
        }
        let helper = PlainPath::new("quantize/kernel.ptx").unwrap();
        assert_eq!((helper.folder(), helper.name()), ("quantize", "kernel.ptx"));
    }
}
