//! SHA-256 checksums, and the seal of a manifest: the checksum of everything before it, as its last key.
//!
//! The seal detects accidental changes, not forgery: anyone can compute a new one. To detect forgery, keep
//! the seal elsewhere and compare it; it covers every byte of the manifest and, through the checksums in it,
//! of the files.

use std::io::{self, Read};

use anyhow::Result;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Key of the seal.
pub const KEY: &str = "sha256";
/// End of a manifest without a seal.
const END: &str = "\n}";

/// State of a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// The manifest is unchanged.
    Intact,
    /// The manifest was changed.
    Broken,
    /// The manifest has no seal.
    Missing,
}

/// Computes the SHA-256 of a stream.
pub fn sha256(mut stream: impl Read) -> io::Result<[u8; 32]> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// Returns a SHA-256 in hexadecimal.
pub fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Computes the SHA-256 of bytes, in hexadecimal.
pub fn checksum(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

/// Serializes a manifest and appends its seal.
pub fn sealed(manifest: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(manifest)?;
    let open = text.strip_suffix(END).expect("a manifest has fields");
    Ok(format!("{open}{}{}\"{END}\n", opening(), checksum(text.as_bytes())))
}

/// Checks the seal of a manifest.
pub fn examine(text: &str) -> Seal {
    let sealed = || text.trim_end().strip_suffix(END)?.strip_suffix('"')?.rsplit_once(&opening());
    match sealed() {
        Some((open, seal)) if checksum(format!("{open}{END}").as_bytes()) == seal => Seal::Intact,
        Some(_) => Seal::Broken,
        None => Seal::Missing,
    }
}

/// The text before the digits of a seal.
fn opening() -> String {
    format!(",\n  \"{KEY}\": \"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_change_breaks_the_seal() {
        let manifest = json!({ "files": [{ "sha256": "7", "name": "a" }], "stages": 3 });
        let text = sealed(&manifest).unwrap();
        assert!(text.ends_with("\"\n}\n"), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["stages"], 3);
        assert_eq!([examine(&text), examine(text.trim_end())], [Seal::Intact; 2]);
        assert_eq!(examine(&text.replace("\"stages\": 3", "\"stages\": 2")), Seal::Broken);
        for byte in 0..text.trim_end().len() {
            let mut changed = text.clone().into_bytes();
            changed[byte] ^= 1;
            assert_ne!(examine(&String::from_utf8(changed).unwrap()), Seal::Intact, "byte {byte}");
        }
        // Reformatted by another program: the values may have changed too.
        assert_eq!(examine(&read.to_string()), Seal::Missing);
        assert_eq!(examine(&serde_json::to_string_pretty(&manifest).unwrap()), Seal::Missing);
        assert_eq!([examine(""), examine("{"), examine("no JSON")], [Seal::Missing; 3]);
    }

    #[test]
    fn checksums_match_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(checksum(b""), empty);
        assert_eq!(hex(sha256(io::empty()).unwrap()), empty);
    }
}
