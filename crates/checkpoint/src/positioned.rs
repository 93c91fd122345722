//! Positioned reads and writes: they ignore the file's cursor, so many threads can share one file.

use std::{fs::File, io};

#[cfg(unix)]
mod sys {
    use std::{fs::File, io, os::unix::fs::FileExt};

    pub(super) fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
        file.read_exact_at(bytes, at)
    }

    pub(super) fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }
}

#[cfg(windows)]
mod sys {
    use std::{fs::File, io, os::windows::fs::FileExt};

    pub fn read_exact_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match file.seek_read(bytes, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    bytes = &mut bytes[read..];
                    at += read as u64;
                }
            }
        }
        Ok(())
    }

    pub fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match file.seek_write(bytes, at)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
            }
        }
        Ok(())
    }
}

/// Fills `bytes` from offset `at`.
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    sys::read_exact_at(file, bytes, at)
}

/// Writes all of `bytes` at offset `at`.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    sys::write_all_at(file, bytes, at)
}
