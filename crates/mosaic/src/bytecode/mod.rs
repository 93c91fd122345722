//! Reads MLIR bytecode, the form in which JAX embeds a Mosaic kernel, into the same [`Module`] that the text
//! parser gives. All versions of the format (0 to 6) are read; errors name the byte offset.
//!
//! A file is a magic number, a version, the producer and a list of sections: strings, dialects with their
//! operation names, attributes and types with their offsets, properties, resources, and the operations.

mod attributes;
mod bytes;
mod elements;
mod locations;
mod ops;
mod properties;
mod tables;
mod types;

use bytes::Bytes;

use crate::{ir::Module, parse::ParseErrorKind, upgrade::upgrade};

const MAGIC: &[u8] = b"ML\xefR";

/// The newest version of the format that is read.
const NEWEST: u64 = 6;

/// The version that added versions of dialects.
const DIALECT_VERSIONS: u64 = 1;
/// The version that put isolated regions into sections of their own.
const REGION_SECTIONS: u64 = 2;
/// The version that added the order of uses.
const USE_ORDERS: u64 = 3;
/// The version that omits unknown locations of block arguments, and counts operation names.
const OPTIONAL_LOCATIONS: u64 = 4;
/// The version that encodes properties natively.
const PROPERTIES: u64 = 5;

/// Bytecode that is not a module, or not one that this reader supports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {message}")]
pub struct BytecodeError {
    /// Offset in the file.
    pub offset: usize,
    /// Whether the file or the reader is at fault.
    pub kind: ParseErrorKind,
    /// What is wrong there.
    pub message: String,
}

type Result<T> = std::result::Result<T, BytecodeError>;

/// Returns whether a file begins like MLIR bytecode.
pub fn is_bytecode(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// Reads a module, upgraded to the current dialects.
pub fn read(file: &[u8]) -> std::result::Result<Module, BytecodeError> {
    let mut bytes = Bytes::new(file);
    if !is_bytecode(file) {
        return Err(bytes.error("this is not MLIR bytecode: it does not begin with 'ML\\xEFR'"));
    }
    bytes.take(MAGIC.len() as u64)?;
    let start = bytes;
    let version = bytes.varint()?;
    if version > NEWEST {
        return Err(start.unsupported(format!(
            "bytecode version {version} is newer than {NEWEST}: write the file with desired_version={NEWEST}"
        )));
    }
    let producer = bytes.rest().iter().position(|&byte| byte == 0);
    let Some(producer) = producer else {
        return Err(bytes.error("the name of the producer is not terminated"));
    };
    bytes.take(producer as u64 + 1)?;
    let sections = Sections::read(bytes)?;
    let mut module = ops::module(version, &sections, file.len())?;
    upgrade(&mut module);
    Ok(module)
}

/// Numbers of the sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Strings = 0,
    Dialects = 1,
    AttributesAndTypes = 2,
    Offsets = 3,
    Operations = 4,
    Resources = 5,
    ResourceOffsets = 6,
    DialectVersion = 7,
    Properties = 8,
}

impl Section {
    const ALL: [Self; 9] = [
        Self::Strings,
        Self::Dialects,
        Self::AttributesAndTypes,
        Self::Offsets,
        Self::Operations,
        Self::Resources,
        Self::ResourceOffsets,
        Self::DialectVersion,
        Self::Properties,
    ];
}

/// Contents of the sections, by number.
struct Sections<'a> {
    contents: [Option<Bytes<'a>>; Section::ALL.len()],
    end: Bytes<'a>,
}

impl<'a> Sections<'a> {
    fn read(mut bytes: Bytes<'a>) -> Result<Self> {
        let mut contents = [None; Section::ALL.len()];
        while !bytes.is_empty() {
            let start = bytes;
            let (section, content) = section(&mut bytes)?;
            if contents[section as usize].replace(content).is_some() {
                return Err(start.error(format!("section {} ({section:?}) appears twice", section as u8)));
            }
        }
        Ok(Self { contents, end: bytes })
    }

    fn optional(&self, section: Section) -> Option<Bytes<'a>> {
        self.contents[section as usize]
    }

    fn required(&self, section: Section) -> Result<Bytes<'a>> {
        let missing = || self.end.error(format!("section {} ({section:?}) is missing", section as u8));
        self.optional(section).ok_or_else(missing)
    }
}

/// Reads a section: its number, length, alignment and content.
fn section<'a>(bytes: &mut Bytes<'a>) -> Result<(Section, Bytes<'a>)> {
    let start = *bytes;
    let head = bytes.byte()?;
    let (number, is_aligned) = (head & 0x7f, head & 0x80 != 0);
    let Some(&section) = Section::ALL.get(usize::from(number)) else {
        return Err(start.error(format!("there is no section number {number}")));
    };
    let length = bytes.varint()?;
    if is_aligned {
        let here = *bytes;
        let alignment = bytes.varint()?;
        if !alignment.is_power_of_two() {
            return Err(here.error(format!("alignment of {alignment} is not a power of two")));
        }
        let past = bytes.offset() as u64 % alignment;
        if past != 0 {
            bytes.take(alignment - past)?;
        }
    }
    Ok((section, bytes.take(length)?))
}

/// Reads a section that must have the given number.
fn expect_section<'a>(bytes: &mut Bytes<'a>, expected: Section) -> Result<Bytes<'a>> {
    let start = *bytes;
    match section(bytes)? {
        (found, content) if found == expected => Ok(content),
        (found, _) => Err(start.error(format!("expected section {expected:?}, found {found:?}"))),
    }
}
