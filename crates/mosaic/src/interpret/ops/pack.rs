//! Packing of several narrow elements into each 32-bit word, and masks made from bounds.

use super::{Definition, integer::is_scalar, pure};
use crate::{
    attribute::Attr,
    interpret::{
        element::{Element, read_floats, read_integers, write_floats},
        program::{Compiler, Made},
        value::{Data, Value},
    },
    ir::Op,
    types::Type,
};

pub(super) const OPS: &[Definition] = &[
    pure("tpu.pack_elementwise", &["target_type"], pack),
    pure("tpu.unpack_elementwise", &["source_type", "index"], unpack),
    pure("tpu.create_mask", &[], create_mask),
];

/// Bits of an element type that a word holds several of.
fn packed_type<'a>(c: &Compiler<'_>, op: &'a Op, name: &str) -> Made<(&'a Type, u32)> {
    match c.attribute(op, name)? {
        Attr::Type(ty @ Type::Float(float)) if float.bits() < 32 => Ok((ty, float.bits() as u32)),
        Attr::Type(ty @ Type::Integer(bits @ (2 | 4 | 8 | 16))) => Ok((ty, *bits)),
        other => Err(format!("attribute '{name}' = {other} is not a type of less than 32 bits").into()),
    }
}

/// The element's bits, the lowest ones of the word.
fn narrowed(ty: &Type, data: &Data, elements: usize) -> Vec<u32> {
    match (ty, data) {
        (Type::Float(float), Data::Floats(_) | Data::Float(_)) => {
            let values = data.to_floats(elements);
            let size = float.bits() / 8;
            let mut bytes = vec![0; elements * size];
            write_floats(*float, &values, &mut bytes);
            let mut bits = Vec::with_capacity(elements);
            read_integers(size, &bytes, &mut bits);
            bits.into_iter().map(|bits| bits as u32).collect()
        }
        _ => data.to_integers(elements).iter().map(|&value| value as u32).collect(),
    }
}

/// Packs the i-th operand into the i-th part of each word, lowest bits first.
fn pack(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (target, bits) = packed_type(c, op, "target_type")?;
    let target = target.clone();
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let elements: usize = c.vector_shape(from)?.iter().product();
    let alike = op.operands.iter().all(|&operand| c.ty(operand) == from);
    let floats = c.float(from).is_ok() == matches!(target, Type::Float(_));
    if op.operands.len() != 32 / bits as usize || !alike || !floats || *to != from.with_element(Type::I32) {
        return Err(
            format!("{} operands of {from} are not packed as {target} into {to}", op.operands.len()).into()
        );
    }
    if c.element(from)?.bytes() != 4 {
        return Err(format!("only 32-bit operands are supported, not {from}").into());
    }
    let mask = u32::MAX >> (32 - bits);
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let mut words = vec![0u32; elements];
        for number in 0..step.operands.len() {
            let part = narrowed(&target, &m.vector(step, number), elements);
            for (word, part) in words.iter_mut().zip(part) {
                *word |= (part & mask) << (number as u32 * bits);
            }
        }
        m.set(step, Value::Vector(Data::integers(words.into_iter().map(|word| word as i32).collect())));
        Ok(())
    }))
}

/// Takes one part of each word; integers are sign-extended.
fn unpack(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (source, bits) = packed_type(c, op, "source_type")?;
    let source = source.clone();
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let elements: usize = c.vector_shape(from)?.iter().product();
    let index = u32::try_from(c.integer_attribute(op, "index")?).ok().filter(|&index| index < 32 / bits);
    let wide = if matches!(source, Type::Float(_)) { Type::F32 } else { Type::I32 };
    let Some(index) = index else { return Err(format!("a word does not hold that many {source}").into()) };
    if *from.element() != Type::I32 || *to != from.with_element(wide) {
        return Err(format!("{source} in {from} is not unpacked to {to}").into());
    }
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let words = m.vector(step, 0).to_integers(elements);
        // The wanted part moves to the top, and back with its sign.
        let part = |&word: &i32| word << (32 - bits * (index + 1)) >> (32 - bits);
        let data = match source {
            Type::Float(float) => {
                let size = float.bits() / 8;
                let bytes: Vec<u8> =
                    words.iter().flat_map(|word| part(word).to_le_bytes().into_iter().take(size)).collect();
                let mut values = Vec::with_capacity(elements);
                read_floats(float, &bytes, &mut values);
                Data::floats(values)
            }
            _ => Data::integers(words.iter().map(part).collect()),
        };
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

/// True inside the box from `low` to `high`, without the latter.
fn create_mask(c: &mut Compiler<'_>, op: &Op) -> Made {
    let to = c.result(op, 0)?;
    let shape = c.vector_shape(to)?;
    let rank = shape.len();
    c.arity(op, 2 * rank, 1)?;
    (0..2 * rank).try_for_each(|i| c.scalar_integer(c.operand(op, i)?))?;
    if Element::of(to).is_none() || *to.element() != Type::I1 || is_scalar(to) {
        return Err(format!("{to} is not a mask").into());
    }
    let elements: usize = shape.iter().product();
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let bounds: Vec<(i64, i64)> =
            (0..rank).map(|i| (m.integer(step, i), m.integer(step, rank + i))).collect();
        let inside = |mut element: usize| {
            let holds = |dimension: usize| {
                let index = (element % shape[dimension]) as i64;
                element /= shape[dimension];
                (bounds[dimension].0..bounds[dimension].1).contains(&index)
            };
            (0..rank).rev().all(holds)
        };
        let mask = (0..elements).map(|element| inside(element).into()).collect();
        m.set(step, Value::Vector(Data::integers(mask)));
        Ok(())
    }))
}
