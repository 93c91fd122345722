//! Collectives of the program around kernels, and the number of the device that runs it.

use std::sync::Arc;

use super::{Definition, effect, pure, reduce::Fold, same_types, tensor_of};
use crate::{
    interpret::{
        array::{Array, Dtype},
        ask::not_modelled,
        machine::{Machine, Stop},
        ops::reshape::strides,
        places::Places,
        program::{Compiler, Made, Refusal, Step},
        value::Value,
    },
    ir::Op,
    types::Type,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    pure("stablehlo.partition_id", &[], |c, op| device_number(c, op, true)),
    pure("stablehlo.replica_id", &[], |c, op| device_number(c, op, false)),
    effect("stablehlo.all_reduce", GROUPS, all_reduce).results(1).regions(1),
    effect("stablehlo.all_gather", GATHER, all_gather).results(1),
    effect("stablehlo.reduce_scatter", SCATTER, reduce_scatter).results(1).regions(1),
    effect("stablehlo.collective_permute", PERMUTE, permute).results(1),
];

const GROUPS: &[&str] = &["replica_groups", "channel_handle", "use_global_device_ids"];
const GATHER: &[&str] = &["all_gather_dim", "replica_groups", "channel_handle", "use_global_device_ids"];
const SCATTER: &[&str] = &["scatter_dimension", "replica_groups", "channel_handle", "use_global_device_ids"];
const PERMUTE: &[&str] = &["source_target_pairs", "channel_handle"];

/// The device of a partition; there is one replica.
fn device_number(c: &mut Compiler<'_>, op: &Op, is_partition: bool) -> Made {
    c.arity(op, 0, 1)?;
    let (dtype, shape) = tensor_of(c, c.result(op, 0)?)?;
    if dtype.is_float() || !shape.is_empty() {
        return Err("it gives one integer".into());
    }
    Ok(Box::new(move |m, step| {
        let device = m.link.as_ref().filter(|_| is_partition).map_or(0, |link| link.device());
        m.set(step, Value::Array(Array::integers(dtype, &[], [device as i64].into_iter())));
        Ok(())
    }))
}

/// Rows of a table of device numbers, `dense<[[0, 1], [2, 3]]>`.
fn rows(c: &Compiler<'_>, op: &Op, name: &str) -> Made<Vec<Vec<usize>>> {
    let attr = c.attribute(op, name)?;
    let unknown = || not_modelled(name, attr);
    let text = attr.to_string();
    let list = text.strip_prefix("dense<").and_then(|rest| rest.split_once('>')).ok_or_else(unknown)?.0;
    let mut rows = Vec::new();
    let inner = list.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(list);
    for row in inner.split(']').map(|row| row.trim_start_matches([',', ' ']).trim_start_matches('[')) {
        if row.trim().is_empty() {
            continue;
        }
        let numbers = row.split(',').map(|number| number.trim().parse().ok());
        rows.push(numbers.collect::<Option<Vec<usize>>>().ok_or_else(unknown)?);
    }
    Ok(rows)
}

/// Tensors of the devices in this one's group, in the order of the group.
fn group(m: &mut Machine<'_>, step: &Step, groups: &[Vec<usize>]) -> Result<(usize, Vec<Array>), Stop> {
    let own = m.array(step, 0)?;
    let all = m.exchange(&own)?;
    let device = m.link.as_ref().map_or(0, |link| link.device());
    let place = |group: &Vec<usize>| group.iter().position(|&member| member == device);
    let found = groups.iter().find_map(|group| place(group).map(|place| (place, group)));
    let Some((place, group)) = found else {
        return Err(Stop::Fault(step.place, format!("device {device} is in no replica group")));
    };
    let member = |&member: &usize| match all.get(member) {
        Some(bytes) => Ok(Array::new(own.dtype, &own.shape, bytes.to_vec())),
        None => Err(Stop::Fault(step.place, format!("there is no device {member}"))),
    };
    Ok((place, group.iter().map(member).collect::<Result<_, _>>()?))
}

/// Combines the tensors of a group element by element, in its order.
fn reduced(m: &mut Machine<'_>, fold: &Fold, members: Vec<Array>) -> Result<Array, Stop> {
    let mut members = members.into_iter();
    let Some(mut sum) = members.next() else { unreachable!("a device is in its own group") };
    for member in members {
        let mut bytes = Vec::new();
        for element in 0..sum.elements() {
            let pair = fold.pair(m, vec![sum.element(element)], vec![member.element(element)])?;
            bytes.extend_from_slice(pair[0].element_bytes(0));
        }
        m.charge(sum.elements());
        sum = Array::new(sum.dtype, &sum.shape.clone(), bytes);
    }
    Ok(sum)
}

fn scalar_fold(c: &mut Compiler<'_>, op: &Op) -> Made<Fold> {
    let ty = c.operand(op, 0)?.element().clone();
    Fold::new(c, &op.regions[0], &[Type::Tensor(Vec::new(), Box::new(ty))])
}

fn all_reduce(c: &mut Compiler<'_>, op: &Op) -> Made {
    same_types(c, op, 1)?;
    let (groups, fold) = (rows(c, op, "replica_groups")?, scalar_fold(c, op)?);
    Ok(Box::new(move |m, step| {
        let (_, members) = group(m, step, &groups)?;
        let sum = reduced(m, &fold, members)?;
        m.set(step, Value::Array(sum));
        Ok(())
    }))
}

/// The dimension along which a collective joins or divides, and the types.
struct Along {
    dimension: usize,
    dtype: Dtype,
    from: Vec<usize>,
    to: Vec<usize>,
    groups: Vec<Vec<usize>>,
}

impl Along {
    fn new(c: &Compiler<'_>, op: &Op, name: &str) -> Made<Self> {
        c.arity(op, 1, 1)?;
        let ((dtype, from), (element, to)) =
            (tensor_of(c, c.operand(op, 0)?)?, tensor_of(c, c.result(op, 0)?)?);
        let dimension = usize::try_from(c.integer_attribute(op, name)?).ok();
        let groups = rows(c, op, "replica_groups")?;
        match dimension.filter(|&dimension| dimension < from.len() && from.len() == to.len()) {
            Some(dimension) if dtype == element => Ok(Self { dimension, dtype, from, to, groups }),
            _ => Err(format!("{from:?} does not become {to:?} along {name}").into()),
        }
    }

    /// Checks that `parts` parts of the small shape make up the large one.
    fn check(&self, small: &[usize], large: &[usize], parts: usize, step: &Step) -> Result<(), Stop> {
        let fits = (0..small.len()).all(|i| match i == self.dimension {
            true => small[i].checked_mul(parts) == Some(large[i]),
            false => small[i] == large[i],
        });
        let message = || format!("{parts} devices do not divide {large:?} into {small:?}");
        if fits { Ok(()) } else { Err(Stop::Fault(step.place, message())) }
    }

    /// Positions of part `number` of the small shape in the large one.
    fn places(&self, small: &[usize], large: &[usize], number: usize) -> Places {
        let strides = strides(large);
        Places::new(small, &strides, number * small[self.dimension] * strides[self.dimension])
    }
}

fn all_gather(c: &mut Compiler<'_>, op: &Op) -> Made {
    let along = Along::new(c, op, "all_gather_dim")?;
    Ok(Box::new(move |m, step| {
        let (_, members) = group(m, step, &along.groups)?;
        along.check(&along.from, &along.to, members.len(), step)?;
        let unit = along.dtype.bytes();
        let mut bytes = vec![0; along.to.iter().product::<usize>() * unit];
        for (number, member) in members.iter().enumerate() {
            let mut element = 0;
            along.places(&along.from, &along.to, number).for_each(|place| {
                bytes[place * unit..][..unit].copy_from_slice(member.element_bytes(element));
                element += 1;
            });
        }
        m.charge(bytes.len() / unit);
        m.set(step, Value::Array(Array::new(along.dtype, &along.to, bytes)));
        Ok(())
    }))
}

fn reduce_scatter(c: &mut Compiler<'_>, op: &Op) -> Made {
    let along = Along::new(c, op, "scatter_dimension")?;
    let fold = scalar_fold(c, op)?;
    Ok(Box::new(move |m, step| {
        let (own, members) = group(m, step, &along.groups)?;
        along.check(&along.to, &along.from, members.len(), step)?;
        let sum = reduced(m, &fold, members)?;
        let mut bytes = Vec::new();
        let places = along.places(&along.to, &along.from, own);
        places.for_each(|place| bytes.extend_from_slice(sum.element_bytes(place)));
        m.set(step, Value::Array(Array::new(along.dtype, &along.to, bytes)));
        Ok(())
    }))
}

fn permute(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (dtype, shape) = same_types(c, op, 1)?;
    let pairs = rows(c, op, "source_target_pairs")?;
    if pairs.iter().any(|pair| pair.len() != 2) {
        return Err(Refusal::NotModelled("source_target_pairs must hold pairs".to_owned()));
    }
    Ok(Box::new(move |m, step| {
        let own = m.array(step, 0)?;
        let all: Vec<Arc<Vec<u8>>> = m.exchange(&own)?;
        let device = m.link.as_ref().map_or(0, |link| link.device());
        let source = pairs.iter().find(|pair| pair[1] == device).and_then(|pair| all.get(pair[0]));
        // A device that nobody sends to gets zeros.
        let elements: usize = shape.iter().product();
        let bytes = source.map_or_else(|| vec![0; elements * dtype.bytes()], |bytes| bytes.to_vec());
        m.set(step, Value::Array(Array::new(dtype, &shape, bytes)));
        Ok(())
    }))
}
