//! Queries that operation handlers make about operands, types and attributes while a program is compiled.

use super::{
    element::Element,
    finding::Note,
    program::{Compiler, Made, Refusal},
};
use crate::{
    attribute::Attr,
    ir::Op,
    limits::{MAX_TENSOR_ELEMENTS, MAX_VECTOR_ELEMENTS},
    types::{Float, Type},
};

impl Compiler<'_> {
    /// Checks the numbers of operands and results.
    pub(crate) fn arity(&self, op: &Op, operands: usize, results: usize) -> Made<()> {
        match (op.operands.len(), op.results.len()) {
            (o, r) if o == operands && r == results => Ok(()),
            (o, r) => {
                Err(format!("expected {operands} operands and {results} results, found {o} and {r}").into())
            }
        }
    }

    pub(crate) fn operand<'b>(&'b self, op: &Op, number: usize) -> Made<&'b Type> {
        match op.operands.get(number) {
            Some(&value) => Ok(self.ty(value)),
            None => Err(format!("operand {number} is missing").into()),
        }
    }

    pub(crate) fn result<'b>(&'b self, op: &Op, number: usize) -> Made<&'b Type> {
        match op.results.get(number) {
            Some(&value) => Ok(self.ty(value)),
            None => Err(format!("result {number} is missing").into()),
        }
    }

    /// Element type of a scalar or vector.
    pub(crate) fn element(&self, ty: &Type) -> Made<Element> {
        Element::of(ty).ok_or_else(|| format!("values of type {ty} are not supported").into())
    }

    pub(crate) fn float(&self, ty: &Type) -> Made<Float> {
        match self.element(ty)? {
            Element::Float(float) if !matches!(ty, Type::MemRef(_)) => Ok(float),
            _ => Err(format!("expected floats, found {ty}").into()),
        }
    }

    pub(crate) fn integer(&self, ty: &Type) -> Made<()> {
        match self.element(ty)? {
            Element::Integer(_) if !matches!(ty, Type::MemRef(_)) => Ok(()),
            _ => Err(format!("expected integers, found {ty}").into()),
        }
    }

    /// Checks for a scalar integer.
    pub(crate) fn scalar_integer(&self, ty: &Type) -> Made<()> {
        match ty {
            Type::Index | Type::Integer(_) => self.integer(ty),
            _ => Err(format!("expected one integer, found {ty}").into()),
        }
    }

    /// Shape of a vector, tensor or scalar (which has no extents).
    pub(crate) fn shape(&self, ty: &Type) -> Made<Vec<usize>> {
        match ty {
            Type::MemRef(_) => Err(format!("{ty} is a memref, not a value").into()),
            _ => self.extents(ty),
        }
    }

    /// Shape of a vector or tensor; rejects everything else.
    pub(crate) fn vector_shape(&self, ty: &Type) -> Made<Vec<usize>> {
        match ty {
            Type::Vector(..) | Type::Tensor(..) => self.extents(ty),
            _ => Err(format!("expected a vector, found {ty}").into()),
        }
    }

    /// Static extents within the element limit.
    pub(crate) fn extents(&self, ty: &Type) -> Made<Vec<usize>> {
        let limit = if matches!(ty, Type::Vector(..)) { MAX_VECTOR_ELEMENTS } else { MAX_TENSOR_ELEMENTS };
        let shape = ty.shape().to_vec();
        let elements = shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent.max(1)));
        match elements {
            Some(elements) if elements <= limit => Ok(shape),
            _ => Err(format!("{ty} has a dynamic extent or more than {limit} elements").into()),
        }
    }

    /// Name of what an operation allocates, unless it is one that MLIR made up.
    pub(crate) fn allocated_name(&self, op: &Op) -> Option<String> {
        let name = self.values().get(op.results.first()?.index())?.name.as_deref()?;
        let is_made_up = name.starts_with("alloca") || name.bytes().all(|byte| byte.is_ascii_digit());
        (!is_made_up).then(|| name.to_owned())
    }

    /// Records a note about chip behaviour that the result does not show.
    pub(crate) fn note(&mut self, op: &Op, message: &str) {
        let line = op.place.map(|place| place.line);
        self.notes.push(Note { line, op: op.name.to_string(), message: message.to_owned() });
    }

    /// Rejects attributes that the handler does not honour.
    pub(super) fn known_attributes(&self, op: &Op, understood: &[&str]) -> Made<()> {
        for (name, value) in op.attributes.iter() {
            match name {
                // Register layouts assigned by the compiler do not change values.
                "in_layout" | "out_layout" => {}
                "operandSegmentSizes" => {
                    let sizes = self.integers_attribute(op, name)?;
                    let total = sizes.iter().try_fold(0i64, |all, &size| all.checked_add(size));
                    if sizes.iter().any(|&size| size < 0) || total != Some(op.operands.len() as i64) {
                        return Err(format!(
                            "operandSegmentSizes does not sum to {} operands",
                            op.operands.len()
                        )
                        .into());
                    }
                }
                name if understood.contains(&name) => {}
                name => return Err(not_modelled(name, value)),
            }
        }
        Ok(())
    }

    /// Checks that `operandSegmentSizes` is one of these.
    pub(crate) fn segments(&self, op: &Op, allowed: &[&[i64]]) -> Made<()> {
        if op.attributes.get("operandSegmentSizes").is_none() {
            return Ok(());
        }
        let sizes = self.integers_attribute(op, "operandSegmentSizes")?;
        match allowed.contains(&sizes.as_slice()) {
            true => Ok(()),
            false => Err(format!("operandSegmentSizes {sizes:?} is not supported").into()),
        }
    }

    /// First operand of each of `count` groups that have at most one each, in order; missing groups at the
    /// end are empty. Without `operandSegmentSizes` the first `leading` are present.
    pub(crate) fn groups(&self, op: &Op, count: usize, leading: &[i64]) -> Made<Vec<Option<usize>>> {
        let sizes = match op.attributes.get("operandSegmentSizes") {
            Some(_) => self.integers_attribute(op, "operandSegmentSizes")?,
            None => leading.to_vec(),
        };
        let single = sizes.len() <= count && sizes.iter().all(|size| matches!(size, 0 | 1));
        if !single || sizes.iter().sum::<i64>() != op.operands.len() as i64 {
            let operands = op.operands.len();
            return Err(
                format!("operandSegmentSizes {sizes:?} do not describe its {operands} operands").into()
            );
        }
        let mut next = 0;
        let mut group = |size: &i64| {
            next += usize::from(*size == 1);
            (*size == 1).then(|| next - 1)
        };
        let mut groups: Vec<Option<usize>> = sizes.iter().map(&mut group).collect();
        groups.resize(count, None);
        Ok(groups)
    }

    /// A boolean attribute; false if absent.
    pub(crate) fn flag(&self, op: &Op, name: &str) -> Made<bool> {
        match op.attributes.get(name) {
            None | Some(Attr::Bool(false)) => Ok(false),
            Some(Attr::Bool(true) | Attr::Unit) => Ok(true),
            Some(other) => Err(not_modelled(name, other)),
        }
    }

    /// Index in `words` of an enum attribute such as `#tpu.rounding_mode<to_nearest_even>`, or `None` if
    /// absent; a number is taken as the index.
    pub(crate) fn word(&self, op: &Op, name: &str, words: &[&str]) -> Made<Option<usize>> {
        let Some(attr) = op.attributes.get(name) else { return Ok(None) };
        let found = match attr {
            Attr::Integer(number, _) => usize::try_from(*number).ok().filter(|&number| number < words.len()),
            Attr::Other(text) | Attr::String(text) => words.iter().position(|word| *word == inner_word(text)),
            _ => None,
        };
        found.map(Some).ok_or_else(|| not_modelled(name, attr))
    }

    /// A list of booleans.
    pub(crate) fn flags_attribute(&self, op: &Op, name: &str) -> Made<Vec<bool>> {
        let attr = self.attribute(op, name)?;
        let bad = || -> Refusal { format!("attribute '{name}' is not a list of booleans: {attr}").into() };
        let text = attr.to_string();
        let list = text.strip_prefix("array<i1").and_then(|rest| rest.strip_suffix('>')).ok_or_else(bad)?;
        let items =
            list.trim().trim_start_matches(':').split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(|item| item.parse().map_err(|_| bad())).collect()
    }

    /// A required attribute.
    pub(crate) fn attribute<'b>(&self, op: &'b Op, name: &str) -> Made<&'b Attr> {
        op.attributes.get(name).ok_or_else(|| format!("attribute '{name}' is missing").into())
    }

    pub(crate) fn integer_attribute(&self, op: &Op, name: &str) -> Made<i64> {
        match self.attribute(op, name)? {
            Attr::Integer(value, _) => Ok(*value),
            other => Err(format!("attribute '{name}' is not an integer: {other}").into()),
        }
    }

    /// A list of integers in any of its spellings.
    pub(crate) fn integers_attribute(&self, op: &Op, name: &str) -> Made<Vec<i64>> {
        let bad = |other: &Attr| -> Refusal {
            format!("attribute '{name}' is not a list of integers: {other}").into()
        };
        match self.attribute(op, name)? {
            Attr::I64s(items) => Ok(items.clone()),
            Attr::I32s(items) => Ok(items.iter().map(|&item| item.into()).collect()),
            list @ (Attr::Array(items) | Attr::Dense(items, _)) => {
                let item = |item: &Attr| match item {
                    Attr::Integer(value, _) => Ok(*value),
                    _ => Err(bad(list)),
                };
                items.iter().map(item).collect()
            }
            // A dense constant of equal integers.
            list @ Attr::Splat(value, ty) => {
                let count = ty.shape().iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
                match (&**value, count.filter(|&count| count <= MAX_LIST)) {
                    (Attr::Integer(value, _), Some(count)) => Ok(vec![*value; count]),
                    _ => Err(bad(list)),
                }
            }
            other => Err(bad(other)),
        }
    }

    /// Dimension indices below `rank`.
    pub(crate) fn dimensions_attribute(&self, op: &Op, name: &str, rank: usize) -> Made<Vec<usize>> {
        let inside = |&item: &i64| usize::try_from(item).ok().filter(|&dimension| dimension < rank);
        let items = self.integers_attribute(op, name)?;
        let dimensions: Option<Vec<usize>> = items.iter().map(inside).collect();
        dimensions.ok_or_else(|| format!("attribute '{name}' names a dimension outside rank {rank}").into())
    }
}

/// Maximum integers of a list that an attribute gives as one repeated value.
const MAX_LIST: usize = 1 << 10;

/// Refusal for an attribute that the chip honours and the interpreter does not.
pub(super) fn not_modelled(name: &str, value: &Attr) -> Refusal {
    let mut value = value.to_string();
    if let Some((end, _)) = value.char_indices().nth(80) {
        value.truncate(end);
        value.push_str("...");
    }
    Refusal::NotModelled(format!("attribute '{name}' = {value} is not supported"))
}

/// The word inside the innermost angle brackets, or the whole text.
pub(super) fn inner_word(text: &str) -> &str {
    text.split_once('<').map_or(text, |(_, rest)| rest.strip_suffix('>').unwrap_or(rest)).trim()
}
