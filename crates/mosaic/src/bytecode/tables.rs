//! Tables of strings, dialects, operation names, and entries of attributes and types.

use super::{DIALECT_VERSIONS, OPTIONAL_LOCATIONS, PROPERTIES, Result, Section, Sections, bytes::Bytes};

/// An encoded attribute or type.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// Index of its dialect.
    pub(super) dialect: usize,
    /// Whether the dialect encoded it; otherwise it is text.
    pub(super) is_encoded: bool,
    pub(super) data: Bytes<'a>,
}

/// An operation name.
#[derive(Clone)]
pub(super) struct OpName {
    /// Dialect and name.
    pub(super) name: String,
    /// Whether the writer knew the operation.
    pub(super) is_registered: bool,
}

/// Everything that operations refer to by number.
pub(super) struct Tables<'a> {
    pub(super) version: u64,
    strings: Vec<&'a str>,
    dialects: Vec<&'a str>,
    op_names: Vec<OpName>,
    pub(super) attributes: Vec<Entry<'a>>,
    pub(super) types: Vec<Entry<'a>>,
    pub(super) properties: Vec<Bytes<'a>>,
    pub(super) resources: Vec<&'a str>,
}

impl<'a> Tables<'a> {
    pub(super) fn read(version: u64, sections: &Sections<'a>) -> Result<Self> {
        let mut tables = Self {
            version,
            strings: strings(sections.required(Section::Strings)?)?,
            dialects: Vec::new(),
            op_names: Vec::new(),
            attributes: Vec::new(),
            types: Vec::new(),
            properties: Vec::new(),
            resources: Vec::new(),
        };
        tables.read_dialects(sections.required(Section::Dialects)?)?;
        tables.read_entries(
            sections.required(Section::Offsets)?,
            sections.required(Section::AttributesAndTypes)?,
        )?;
        if let Some(bytes) = sections.optional(Section::Properties) {
            tables.properties = properties(bytes)?;
        }
        if let Some(bytes) = sections.optional(Section::ResourceOffsets) {
            tables.read_resources(bytes)?;
        }
        Ok(tables)
    }

    pub(super) fn string(&self, bytes: &mut Bytes<'a>) -> Result<&'a str> {
        let start = *bytes;
        let number = bytes.varint()?;
        self.string_at(start, number)
    }

    fn string_at(&self, start: Bytes<'a>, number: u64) -> Result<&'a str> {
        get(&self.strings, number).copied().ok_or_else(|| start.error(format!("no string {number}")))
    }

    pub(super) fn dialect(&self, entry: &Entry<'_>) -> &'a str {
        self.dialects.get(entry.dialect).copied().unwrap_or_default()
    }

    pub(super) fn op_name(&self, bytes: &mut Bytes<'a>) -> Result<&OpName> {
        let start = *bytes;
        let number = bytes.varint()?;
        get(&self.op_names, number).ok_or_else(|| start.error(format!("no operation name {number}")))
    }

    fn read_dialects(&mut self, mut bytes: Bytes<'a>) -> Result<()> {
        for _ in 0..bytes.count("dialects")? {
            if self.version < DIALECT_VERSIONS {
                self.dialects.push(self.string(&mut bytes)?);
                continue;
            }
            let start = bytes;
            let (name, is_versioned) = bytes.varint_with_flag()?;
            self.dialects.push(self.string_at(start, name)?);
            if is_versioned {
                super::expect_section(&mut bytes, Section::DialectVersion)?;
            }
        }
        if self.version >= OPTIONAL_LOCATIONS {
            bytes.varint()?;
        }
        while !bytes.is_empty() {
            let (dialect, count) = self.group(&mut bytes)?;
            for _ in 0..count {
                let start = bytes;
                let (name, is_registered) = match self.version < PROPERTIES {
                    true => (bytes.varint()?, true),
                    false => bytes.varint_with_flag()?,
                };
                let name = self.string_at(start, name)?;
                let dialect = self.dialects.get(dialect).copied().unwrap_or_default();
                let name = if name.is_empty() { dialect.to_owned() } else { format!("{dialect}.{name}") };
                if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-')) {
                    return Err(
                        start.error("invalid operation name: use letters, digits, '_', '$', '.' and '-'")
                    );
                }
                self.op_names.push(OpName { name, is_registered });
            }
        }
        Ok(())
    }

    /// Reads the head of a group: a dialect and a number of items.
    fn group(&self, bytes: &mut Bytes<'a>) -> Result<(usize, usize)> {
        let start = *bytes;
        let dialect = bytes.varint()?;
        let count = bytes.count("items")?;
        match usize::try_from(dialect) {
            Ok(dialect) if dialect < self.dialects.len() => Ok((dialect, count)),
            _ => Err(start.error(format!("no dialect {dialect}"))),
        }
    }

    /// Attributes come first, then types; the offsets of both run on.
    fn read_entries(&mut self, mut offsets: Bytes<'a>, mut data: Bytes<'a>) -> Result<()> {
        let attributes = offsets.count("attributes")?;
        let types = offsets.count("types")?;
        self.attributes = self.entries(attributes, &mut offsets, &mut data)?;
        self.types = self.entries(types, &mut offsets, &mut data)?;
        match offsets.is_empty() && data.is_empty() {
            true => Ok(()),
            false => Err(offsets.error("the table of offsets does not cover the attributes and types")),
        }
    }

    fn entries(&self, count: usize, offsets: &mut Bytes<'a>, data: &mut Bytes<'a>) -> Result<Vec<Entry<'a>>> {
        let mut entries = Vec::new();
        while entries.len() < count {
            let start = *offsets;
            let (dialect, items) = self.group(offsets)?;
            if items == 0 || items > count - entries.len() {
                return Err(start.error(format!("a group of {items} among {count} attributes or types")));
            }
            for _ in 0..items {
                let (size, is_encoded) = offsets.varint_with_flag()?;
                entries.push(Entry { dialect, is_encoded, data: data.take(size)? });
            }
        }
        Ok(entries)
    }

    /// Reads the keys of dialect resources; what they hold is not needed.
    fn read_resources(&mut self, mut bytes: Bytes<'a>) -> Result<()> {
        let external = bytes.varint()?;
        let mut groups = 0u64;
        while !bytes.is_empty() {
            let is_external = groups < external;
            groups += 1;
            bytes.varint()?;
            for _ in 0..bytes.count("resources")? {
                let key = self.string(&mut bytes)?;
                bytes.varint()?;
                bytes.byte()?;
                if !is_external {
                    self.resources.push(key);
                }
            }
        }
        Ok(())
    }
}

/// Looks up an item by a number from the file.
pub(super) fn get<T>(items: &[T], number: u64) -> Option<&T> {
    items.get(usize::try_from(number).ok()?)
}

/// Reads the strings: lengths from the last string to the first, then the zero-terminated strings.
fn strings(mut bytes: Bytes<'_>) -> Result<Vec<&str>> {
    let start = bytes;
    let count = bytes.count("strings")?;
    let mut lengths = Vec::new();
    for _ in 0..count {
        lengths.push(bytes.varint()?);
    }
    let mut strings = Vec::with_capacity(count);
    for length in lengths.into_iter().rev() {
        let here = bytes;
        let taken = bytes.take(length)?.rest();
        let Some(text) = taken.strip_suffix(&[0]) else {
            return Err(here.error("a string is not terminated"));
        };
        strings.push(std::str::from_utf8(text).map_err(|_| here.error("a string is not UTF-8"))?);
    }
    match bytes.is_empty() {
        true => Ok(strings),
        false => Err(start.error("the lengths of the strings do not add up to the section")),
    }
}

fn properties(mut bytes: Bytes<'_>) -> Result<Vec<Bytes<'_>>> {
    let count = bytes.count("properties")?;
    let mut properties = Vec::new();
    for _ in 0..count {
        let size = bytes.varint()?;
        properties.push(bytes.take(size)?);
    }
    Ok(properties)
}
