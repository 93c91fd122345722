//! Loops, branches and scopes of the program around a kernel.

use super::{Definition, array_op, effect, pure, tensor_of};
use crate::{
    attribute::Attr,
    interpret::{
        admit::is_terminator,
        array::Dtype,
        devices::manual_computation,
        machine::{Machine, Stop},
        ops::control::{enter, hand_out},
        program::{Block, Compiler, Made},
        value::Value,
    },
    ir::{Op, Region},
    types::Type,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    effect("stablehlo.while", IGNORED, while_).any_results().regions(2),
    effect("stablehlo.if", IGNORED, branch).any_results().regions(2),
    effect("stablehlo.case", IGNORED, branch).any_results().any_regions(),
    effect("stablehlo.optimization_barrier", IGNORED, barrier).any_results(),
    effect("stablehlo.composite", COMPOSITE, composite).any_results(),
    effect("sdy.manual_computation", MANUAL, manual_computation).any_results().regions(1),
    pure("sdy.sharding_constraint", &["sharding"], |c, op| {
        super::same_types(c, op, 1)?;
        array_op(1, |arrays| arrays[0].clone())
    }),
];

const IGNORED: &[&str] = &["mhlo.frontend_attributes"];
const COMPOSITE: &[&str] = &["name", "decomposition", "composite_attributes", "version"];
const MANUAL: &[&str] = &["in_shardings", "out_shardings", "manual_axes"];

/// Types that a region takes and returns.
fn check_region(c: &Compiler<'_>, region: &Region, takes: &[Type], yields: &[Type]) -> Made<()> {
    let last = region.ops.last().filter(|op| is_terminator(op));
    let returned = last.is_some_and(|op| op.operands.iter().map(|&value| c.ty(value)).eq(yields));
    let taken = region.arguments.iter().map(|&value| c.ty(value)).eq(takes);
    if taken && returned { Ok(()) } else { Err("a region takes or returns unexpected types".into()) }
}

fn types(c: &Compiler<'_>, values: &[crate::ir::Value]) -> Vec<Type> {
    values.iter().map(|&value| c.ty(value).clone()).collect()
}

/// The condition that a block has returned.
fn condition(m: &mut Machine<'_>) -> Result<bool, Stop> {
    match std::mem::take(&mut m.yielded).first() {
        Some(Value::Array(array)) => Ok(array.integer(0) != 0),
        Some(Value::Missing(why)) => Err(Stop::Missing(why.clone())),
        other => unreachable!("a condition, not {other:?}"),
    }
}

fn while_(c: &mut Compiler<'_>, op: &Op) -> Made {
    let carried = types(c, &op.operands);
    if types(c, &op.results) != carried {
        return Err("loop-carried values must have matching types".into());
    }
    check_region(c, &op.regions[0], &carried, &[Type::tensor([], Type::I1)])?;
    check_region(c, &op.regions[1], &carried, &carried)?;
    let (test, body) = (c.block(&op.regions[0])?, c.block(&op.regions[1])?);
    Ok(Box::new(move |m, step| {
        let mut values: Vec<Value> = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        loop {
            m.count_operations(1);
            m.yielded = values.clone();
            enter(m, &test);
            m.run(&test)?;
            if !condition(m)? {
                break;
            }
            m.yielded = values;
            enter(m, &body);
            m.run(&body)?;
            values = std::mem::take(&mut m.yielded);
        }
        m.yielded = values;
        hand_out(m, step);
        Ok(())
    }))
}

/// Runs one of several blocks: the first if the operand is true, or the one with its index; an index outside
/// selects the last.
fn branch(c: &mut Compiler<'_>, op: &Op) -> Made {
    let results = types(c, &op.results);
    let (dtype, shape) = tensor_of(c, c.operand(op, 0)?)?;
    if op.operands.len() != 1 || dtype.is_float() || !shape.is_empty() || op.regions.is_empty() {
        return Err("it takes one integer, and at least one block".into());
    }
    op.regions.iter().try_for_each(|region| check_region(c, region, &[], &results))?;
    let blocks = op.regions.iter().map(|region| c.block(region)).collect::<Result<Vec<Block>, _>>()?;
    let is_if = dtype == Dtype::Bool;
    Ok(Box::new(move |m, step| {
        let value = m.array(step, 0)?.integer(0);
        let last = blocks.len() - 1;
        let chosen = match is_if {
            true => usize::from(value == 0),
            false => usize::try_from(value).unwrap_or(last).min(last),
        };
        m.run(&blocks[chosen])?;
        hand_out(m, step);
        Ok(())
    }))
}

/// Gives its operands back.
fn barrier(c: &mut Compiler<'_>, op: &Op) -> Made {
    if types(c, &op.operands) != types(c, &op.results) {
        return Err("results must have the types of the operands".into());
    }
    Ok(Box::new(|m, step| {
        m.yielded = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        hand_out(m, step);
        Ok(())
    }))
}

/// Calls the function that defines a composite operation.
fn composite(c: &mut Compiler<'_>, op: &Op) -> Made {
    let Attr::Symbol(callee) = c.attribute(op, "decomposition")?.clone() else {
        return Err("attribute 'decomposition' is not a symbol".into());
    };
    let (takes, results) = (types(c, &op.operands), types(c, &op.results));
    Ok(Box::new(move |m, step| {
        let code = m.program.functions.get(&callee).cloned();
        let fits = |code: &std::sync::Arc<crate::interpret::program::Code>| {
            code.argument_types == takes && code.results == results
        };
        let Some(code) = code.filter(fits) else {
            return Err(Stop::Fault(step.place, format!("no function @{callee} with these types")));
        };
        let values: Vec<Value> = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        m.yielded = m.call(&code, values.into_iter())?;
        hand_out(m, step);
        Ok(())
    }))
}
