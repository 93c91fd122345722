//! Operations, regions and the values between them.

use std::borrow::Cow;

use super::{
    OPTIONAL_LOCATIONS, REGION_SECTIONS, Result, Section, Sections, USE_ORDERS, attributes::Pool,
    bytes::Bytes, expect_section, tables::Tables,
};
use crate::{
    attribute::{Attr, Attributes},
    ir::{Function, Module, Op, Region, Value, ValueInfo},
    source::Trace,
    types::Type,
    upgrade::unversioned,
};

/// Bits of an operation's mask.
mod has {
    pub(super) const ATTRIBUTES: u8 = 1;
    pub(super) const RESULTS: u8 = 2;
    pub(super) const OPERANDS: u8 = 4;
    pub(super) const SUCCESSORS: u8 = 8;
    pub(super) const REGIONS: u8 = 16;
    pub(super) const USE_ORDERS: u8 = 32;
    pub(super) const PROPERTIES: u8 = 64;
}

/// Reads the module of a file.
pub(super) fn module(version: u64, sections: &Sections<'_>, file_size: usize) -> Result<Module> {
    let tables = Tables::read(version, sections)?;
    let mut bytes = sections.required(Section::Operations)?;
    let mut reader = Reader {
        version,
        pool: Pool::new(tables, file_size),
        scopes: Vec::new(),
        isolated: 0,
        values: Vec::new(),
        arguments: 0,
    };
    let start = bytes;
    let (1, false) = bytes.varint_with_flag()? else {
        return Err(start.unsupported("the file holds several operations at the top, not one module"));
    };
    let module = reader.module(&mut bytes)?;
    match bytes.is_empty() {
        true => Ok(module),
        false => Err(bytes.error("bytes follow the module")),
    }
}

/// Values that a region being read has defined. Values are numbered from the innermost isolated region
/// outwards; those of a region follow all those of the region around it.
struct Scope {
    base: u64,
    count: u64,
    values: Vec<Value>,
}

/// What an operation has before its regions.
struct Head {
    op: Op,
    results: Vec<Type>,
    /// Number of regions, and whether they use no values from outside.
    regions: (usize, bool),
}

struct Reader<'a> {
    version: u64,
    pool: Pool<'a>,
    scopes: Vec<Scope>,
    /// First scope whose values the current region can use.
    isolated: usize,
    /// Values of the current function.
    values: Vec<ValueInfo>,
    /// Block arguments of the current function so far.
    arguments: usize,
}

impl<'a> Reader<'a> {
    fn module(&mut self, bytes: &mut Bytes<'a>) -> Result<Module> {
        let start = *bytes;
        let Head { op, results, regions } = self.head(bytes)?;
        if op.name != "builtin.module" || !results.is_empty() || !op.operands.is_empty() {
            return Err(start.unsupported(format!("expected a module, found '{}'", op.name)));
        }
        let (1, is_isolated) = regions else {
            return Err(start.error("a module has one region"));
        };
        let mut functions = Vec::new();
        self.region(bytes, is_isolated, |reader, bytes, count| {
            for _ in 0..count {
                functions.push(reader.function(bytes)?);
            }
            Ok(())
        })?;
        let name = match op.attributes.get("sym_name") {
            Some(Attr::String(name)) => Some(name.clone()),
            _ => None,
        };
        Ok(Module { name, attributes: op.attributes.without(&["sym_name"]), functions })
    }

    fn function(&mut self, bytes: &mut Bytes<'a>) -> Result<Function> {
        let start = *bytes;
        self.values = Vec::new();
        self.arguments = 0;
        let mut op = self.op(bytes)?;
        op.name = Cow::Owned(unversioned(&op.name).to_owned());
        Function::from_op(op, std::mem::take(&mut self.values)).map_err(|message| start.unsupported(message))
    }

    /// Reads an operation with its regions.
    fn op(&mut self, bytes: &mut Bytes<'a>) -> Result<Op> {
        let start = *bytes;
        let Head { mut op, results, regions: (regions, is_isolated) } = self.head(bytes)?;
        for _ in 0..regions {
            let mut ops = Vec::new();
            let nested = self.nested(start, |reader| {
                reader.region(bytes, is_isolated, |reader, bytes, count| {
                    for _ in 0..count {
                        ops.push(reader.op(bytes)?);
                    }
                    Ok(())
                })
            })?;
            op.regions.push(Region { arguments: nested, ops });
        }
        for ty in results {
            let value = self.define(start, ty, None)?;
            op.results.push(value);
        }
        Ok(op)
    }

    fn nested<T>(&mut self, start: Bytes<'a>, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.pool.enter(start)?;
        let value = read(self);
        self.pool.leave();
        value
    }

    fn head(&mut self, bytes: &mut Bytes<'a>) -> Result<Head> {
        let name = self.pool.tables.op_name(bytes)?.clone();
        let start = *bytes;
        let mask = bytes.byte()?;
        if mask & has::SUCCESSORS != 0 {
            return Err(start.unsupported(format!(
                "{} branches between blocks, which is not supported: use scf operations",
                name.name
            )));
        }
        let (location, source) = self.pool.location(bytes)?.of_op();
        let mut attributes = Attributes::new();
        if mask & has::ATTRIBUTES != 0 {
            let here = *bytes;
            attributes = match self.pool.attribute(bytes)? {
                Attr::Dict(attributes) => attributes,
                _ => return Err(here.error("the attributes of an operation are not a dictionary")),
            };
        }
        if mask & has::PROPERTIES != 0 {
            let properties = self.pool.properties(bytes, &name)?;
            let missing = |(name, _): &(&str, &Attr)| attributes.get(name).is_none();
            let more: Vec<_> = properties.iter().filter(missing).collect();
            attributes =
                more.into_iter().fold(attributes.clone(), |all, (name, value)| all.with(name, value.clone()));
        }
        let mut results = Vec::new();
        if mask & has::RESULTS != 0 {
            for _ in 0..bytes.count("results")? {
                results.push(self.pool.ty(bytes)?);
            }
        }
        let mut operands = Vec::new();
        if mask & has::OPERANDS != 0 {
            for _ in 0..bytes.count("operands")? {
                operands.push(self.operand(bytes)?);
            }
        }
        if mask & has::USE_ORDERS != 0 && self.version >= USE_ORDERS {
            skip_use_orders(bytes, results.len())?;
        }
        let regions = match mask & has::REGIONS != 0 {
            true => self.region_count(bytes)?,
            false => (0, false),
        };
        let op = Op {
            name: Cow::Owned(name.name),
            operands,
            results: Vec::new(),
            attributes,
            regions: Vec::new(),
            location: location.map(|name| Cow::Owned(name.to_string())),
            place: None,
            source,
        };
        Ok(Head { op, results, regions })
    }

    fn region_count(&mut self, bytes: &mut Bytes<'a>) -> Result<(usize, bool)> {
        let start = *bytes;
        let (count, is_isolated) = bytes.varint_with_flag()?;
        Ok((start.checked_count(count, bytes.remaining(), "regions")?, is_isolated))
    }

    fn operand(&mut self, bytes: &mut Bytes<'a>) -> Result<Value> {
        let start = *bytes;
        let number = bytes.varint()?;
        let scopes = self.scopes.get(self.isolated..).unwrap_or_default();
        let found = scopes.iter().find_map(|scope| {
            let within = number.checked_sub(scope.base).filter(|&within| within < scope.count)?;
            scope.values.get(usize::try_from(within).ok()?)
        });
        found.copied().ok_or_else(|| start.error(format!("value {number} is used before its definition")))
    }

    fn define(&mut self, start: Bytes<'a>, ty: Type, name: Option<Cow<'static, str>>) -> Result<Value> {
        let value = u32::try_from(self.values.len()).map(Value);
        let value = value.map_err(|_| start.error("a function has too many values"))?;
        let Some(scope) = self.scopes.last_mut() else {
            return Err(start.error("a value is defined outside of a region"));
        };
        if scope.values.len() as u64 == scope.count {
            let count = scope.count;
            return Err(start.error(format!("a region defines more than the {count} values it announces")));
        }
        scope.values.push(value);
        self.values.push(ValueInfo { ty, name });
        Ok(value)
    }

    /// Reads a region; `read` reads its operations. Returns the block arguments.
    fn region(
        &mut self,
        bytes: &mut Bytes<'a>,
        is_isolated: bool,
        read: impl FnOnce(&mut Self, &mut Bytes<'a>, usize) -> Result<()>,
    ) -> Result<Vec<Value>> {
        if !is_isolated {
            return self.inline_region(bytes, read);
        }
        let outer = std::mem::replace(&mut self.isolated, self.scopes.len());
        let arguments = match self.version < REGION_SECTIONS {
            true => self.inline_region(bytes, read)?,
            false => {
                let mut section = expect_section(bytes, Section::Operations)?;
                let arguments = self.inline_region(&mut section, read)?;
                if !section.is_empty() {
                    return Err(section.error("bytes follow the region"));
                }
                arguments
            }
        };
        self.isolated = outer;
        Ok(arguments)
    }

    fn inline_region(
        &mut self,
        bytes: &mut Bytes<'a>,
        read: impl FnOnce(&mut Self, &mut Bytes<'a>, usize) -> Result<()>,
    ) -> Result<Vec<Value>> {
        let start = *bytes;
        match bytes.varint()? {
            0 => return Ok(Vec::new()),
            1 => {}
            blocks => {
                return Err(start.unsupported(format!(
                    "a region with {blocks} blocks is not supported: use scf operations"
                )));
            }
        }
        let here = *bytes;
        let count = bytes.varint()?;
        let outer = self.scopes.get(self.isolated..).unwrap_or_default().last();
        let base = outer.map_or(Some(0), |scope| scope.base.checked_add(scope.count));
        let Some(base) = base.filter(|base| base.checked_add(count).is_some()) else {
            return Err(here.error(format!("a region announces {count} values")));
        };
        self.scopes.push(Scope { base, count, values: Vec::new() });
        let head = *bytes;
        let (ops, has_arguments) = bytes.varint_with_flag()?;
        let ops = head.checked_count(ops, bytes.remaining(), "operations")?;
        let arguments = match has_arguments {
            true => self.block_arguments(bytes)?,
            false => Vec::new(),
        };
        read(self, bytes, ops)?;
        self.scopes.pop();
        Ok(arguments)
    }

    fn block_arguments(&mut self, bytes: &mut Bytes<'a>) -> Result<Vec<Value>> {
        let mut arguments = Vec::new();
        for _ in 0..bytes.count("block arguments")? {
            let start = *bytes;
            let (number, has_location) = match self.version < OPTIONAL_LOCATIONS {
                true => (bytes.varint()?, true),
                false => bytes.varint_with_flag()?,
            };
            let ty = self.pool.type_at(start, number)?;
            let location = if has_location { self.pool.location(bytes)? } else { Trace::default() };
            let name = location.argument_name().unwrap_or_else(|| format!("arg{}", self.arguments));
            self.arguments += 1;
            arguments.push(self.define(start, ty, Some(Cow::Owned(name)))?);
        }
        if self.version >= USE_ORDERS && bytes.byte()? != 0 {
            skip_use_orders(bytes, arguments.len())?;
        }
        Ok(arguments)
    }
}

/// Skips the order in which values are used, which has no meaning here.
fn skip_use_orders(bytes: &mut Bytes<'_>, values: usize) -> Result<()> {
    let orders = if values > 1 { bytes.count("orders of uses")? } else { 1 };
    for _ in 0..orders {
        if values > 1 {
            bytes.varint()?;
        }
        let start = *bytes;
        let (count, _) = bytes.varint_with_flag()?;
        for _ in 0..start.checked_count(count, bytes.remaining(), "uses")? {
            bytes.varint()?;
        }
    }
    Ok(())
}
