//! A position in the bytes and the readers of primitive encodings.

use super::{BytecodeError, Result};
use crate::parse::ParseErrorKind;

/// Reads forward through a slice of the file; errors carry offsets into the whole file.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
    /// Offset of `data` in the file.
    base: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, base: 0 }
    }

    /// Offset in the file.
    pub(super) fn offset(&self) -> usize {
        self.base + self.at
    }

    pub(super) fn remaining(&self) -> usize {
        self.data.len() - self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    pub(super) fn error(&self, message: impl Into<String>) -> BytecodeError {
        BytecodeError { offset: self.offset(), kind: ParseErrorKind::Malformed, message: message.into() }
    }

    /// An error about something that MLIR has and this reader has not.
    pub(super) fn unsupported(&self, message: impl Into<String>) -> BytecodeError {
        BytecodeError { kind: ParseErrorKind::Unsupported, ..self.error(message) }
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let Some(&byte) = self.data.get(self.at) else {
            return Err(self.error("the file ends inside an encoding: it is truncated or damaged"));
        };
        self.at += 1;
        Ok(byte)
    }

    /// Reads `count` bytes as a cursor of their own.
    pub(super) fn take(&mut self, count: u64) -> Result<Self> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let Some(data) = end.and_then(|end| self.data.get(self.at..end)) else {
            let left = self.remaining();
            return Err(self.error(format!("{count} bytes are announced here, but only {left} follow")));
        };
        let taken = Self { data, at: 0, base: self.offset() };
        self.at += data.len();
        Ok(taken)
    }

    /// The bytes that were not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Reads an integer of one to nine bytes; the trailing zeros of the first byte count the bytes after it.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let first = self.byte()?;
        let more = first.trailing_zeros();
        let mut value = if more == 8 { 0 } else { u64::from(first) >> (more + 1) };
        // The first byte of a nine-byte encoding holds no bits of the value.
        let mut shift = 7u32.saturating_sub(more);
        for _ in 0..more {
            value |= u64::from(self.byte()?) << shift;
            shift += 8;
        }
        Ok(value)
    }

    /// Reads an integer whose lowest bit is a flag.
    pub(super) fn varint_with_flag(&mut self) -> Result<(u64, bool)> {
        let value = self.varint()?;
        Ok((value >> 1, value & 1 != 0))
    }

    /// Reads a zigzag-encoded integer.
    pub(super) fn signed_varint(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads the number of items that follow, each at least one byte long.
    pub(super) fn count(&mut self, what: &str) -> Result<usize> {
        let start = *self;
        let count = self.varint()?;
        start.checked_count(count, self.remaining(), what)
    }

    /// Rejects a count of items that cannot fit into the bytes left.
    pub(super) fn checked_count(&self, count: u64, left: usize, what: &str) -> Result<usize> {
        match usize::try_from(count) {
            Ok(count) if count <= left => Ok(count),
            _ => Err(self.error(format!("{count} {what} are announced here, but only {left} bytes follow"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_to_nine_bytes() {
        let read = |bytes: &[u8]| Bytes::new(bytes).varint().ok();
        assert_eq!(read(&[0x01]), Some(0));
        assert_eq!(read(&[0xff]), Some(127));
        assert_eq!(read(&[0x02, 0x02]), Some(128));
        assert_eq!(read(&[0xfe, 0xff]), Some((1 << 14) - 1));
        assert_eq!(read(&[0x80, 1, 0, 0, 0, 0, 0, 0]), Some(1));
        assert_eq!(read(&[0x00, 1, 0, 0, 0, 0, 0, 0, 0x80]), Some(1 << 63 | 1));
        assert_eq!(read(&[0x00, 1]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn signed_integers_are_zigzag_encoded() {
        let read = |bytes: &[u8]| Bytes::new(bytes).signed_varint().ok();
        assert_eq!(read(&[0x01]), Some(0));
        assert_eq!(read(&[0x03]), Some(-1));
        assert_eq!(read(&[0x05]), Some(1));
        assert_eq!(read(&[0, 255, 255, 255, 255, 255, 255, 255, 255]), Some(i64::MIN));
    }

    #[test]
    fn announced_sizes_are_checked_against_the_bytes_that_follow() {
        let error = Bytes::new(&[1, 2]).take(u64::MAX).err().unwrap();
        assert_eq!(
            error.to_string(),
            format!("byte 0: {} bytes are announced here, but only 2 follow", u64::MAX)
        );
    }
}
