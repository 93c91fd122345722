//! Random bits. What bits the chip draws is not specified: a generator of our own stands in, seeded alike.

use super::{Definition, effect, integer::bits, pure, scalar::wrap};
use crate::{
    attribute::Attr,
    interpret::{
        program::{Compiler, Made, Refusal},
        value::{Data, Value},
    },
    ir::Op,
    types::{Float, Type},
};

/// The operation that draws random bits.
pub(crate) const RANDOM_BITS: &str = "tpu.prng_random_bits";

pub(super) const OPS: &[Definition] = &[
    effect("tpu.prng_set_seed_32", &[], set_seed),
    effect(RANDOM_BITS, &[], random_bits).results(1),
    pure("tpu.stochastic_convert", &[], stochastic_convert),
    pure("tpu.stochastic_convert_elementwise", &["dst_type"], stochastic_convert_bits),
];

/// State of the generator: SplitMix64, whose output depends on every bit of the seed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RandomBits(u64);

impl RandomBits {
    fn seed(&mut self, seeds: impl Iterator<Item = i64>) {
        self.0 = 0;
        for seed in seeds {
            self.0 ^= u64::from(seed as u32);
            self.0 = self.next_word();
        }
    }

    fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

fn set_seed(c: &mut Compiler<'_>, op: &Op) -> Made {
    (0..op.operands.len()).try_for_each(|i| c.scalar_integer(c.operand(op, i)?))?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let seeds: Vec<i64> = (0..step.operands.len()).map(|i| m.integer(step, i)).collect();
        m.random.seed(seeds.into_iter());
        Ok(())
    }))
}

fn random_bits(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let ty = c.result(op, 0)?;
    let (elements, bits) = (c.vector_shape(ty)?.iter().product(), bits(c, ty)?);
    c.note(op, "the chip's random bits are not specified; these come from another generator");
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        m.changes += 1;
        let draw = |_| wrap(bits, (m.random.next_word() >> 32) as i64) as i32;
        let data = (0..elements).map(draw).collect();
        m.set(step, Value::Vector(Data::integers(data)));
        Ok(())
    }))
}

/// Rounds to bf16: adds 16 random bits below the result's last bit, then truncates.
fn stochastic_bf16(value: f32, random: i32) -> u32 {
    let bits = value.to_bits();
    if !value.is_finite() {
        return bits;
    }
    bits.wrapping_add(random as u32 & 0xffff) & 0xffff_0000
}

/// Checks for f32 values and as many random words.
fn converted(c: &Compiler<'_>, op: &Op) -> Made<usize> {
    c.arity(op, 2, 1)?;
    let (from, random) = (c.operand(op, 0)?, c.operand(op, 1)?);
    let shape = c.vector_shape(from)?;
    if c.float(from)? != Float::F32 || *random != from.with_element(Type::I32) {
        return Err(format!("expected f32 and as many i32, found {from} and {random}").into());
    }
    Ok(shape.iter().product())
}

fn only_bf16(ty: &Type) -> Refusal {
    Refusal::NotModelled(format!("stochastic rounding to {ty} is not supported: only to bf16"))
}

const ROUNDING: &str = "which random bits the chip uses is not specified; here the lower 16 decide";

fn stochastic_convert(c: &mut Compiler<'_>, op: &Op) -> Made {
    let elements = converted(c, op)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    if *to != from.with_element(Float::Bf16) {
        return Err(only_bf16(to.element()));
    }
    c.note(op, ROUNDING);
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let (values, random) =
            (m.vector(step, 0).to_floats(elements), m.vector(step, 1).to_integers(elements));
        let round = |(&value, &random): (&f32, &i32)| f32::from_bits(stochastic_bf16(value, random));
        let data = values.iter().zip(random.iter()).map(round).collect();
        m.set(step, Value::Vector(Data::floats(data)));
        Ok(())
    }))
}

/// The rounded value's bits are the lowest of each result.
fn stochastic_convert_bits(c: &mut Compiler<'_>, op: &Op) -> Made {
    let elements = converted(c, op)?;
    match c.attribute(op, "dst_type")? {
        Attr::Type(Type::Float(Float::Bf16)) => {}
        Attr::Type(other) => return Err(only_bf16(other)),
        other => return Err(format!("attribute 'dst_type' is not a type: {other}").into()),
    }
    if c.result(op, 0)? != c.operand(op, 1)? {
        return Err("the result has the type of the random bits".into());
    }
    c.note(op, ROUNDING);
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let (values, random) =
            (m.vector(step, 0).to_floats(elements), m.vector(step, 1).to_integers(elements));
        let round = |(&value, &random): (&f32, &i32)| (stochastic_bf16(value, random) >> 16) as i32;
        let data = values.iter().zip(random.iter()).map(round).collect();
        m.set(step, Value::Vector(Data::integers(data)));
        Ok(())
    }))
}
