//! Asynchronous copies and semaphores.

use super::{Maker, memory::memref};
use crate::{
    attribute::Attr,
    interpret::{
        copies::SemaphoreId,
        finding::Agent,
        machine::{Machine, Stop},
        memory::Buffer,
        program::{Compiler, Made, Step},
        value::Value,
    },
    ir::Op,
    types::{MemorySpace, Type},
};

pub(super) const OPS: &[(&str, Maker)] = &[
    ("tpu.enqueue_dma", enqueue),
    ("tpu.wait_dma2", |c, op| wait_copy(c, op, 0, 2)),
    ("tpu.wait_dma", |c, op| wait_copy(c, op, 0, 1)),
    ("tpu.sem_alloc", allocate),
    ("tpu.sem_signal", signal),
    ("tpu.sem_wait", wait),
    ("tpu.sem_read", read),
];

/// A semaphore of the wanted kind.
fn semaphore(c: &Compiler<'_>, op: &Op, number: usize, kind: &Type) -> Made<()> {
    let memref = memref(c, op, number)?;
    let single = memref.shape.iter().all(|&extent| extent == 1);
    match *memref.element == *kind && single {
        true => Ok(()),
        false => Err(format!("operand {number} must be one {kind}, not {}", c.operand(op, number)?).into()),
    }
}

fn id(m: &mut Machine<'_>, step: &Step, operand: usize) -> Result<SemaphoreId, Stop> {
    let view = m.view(step, operand).clone();
    m.inside(&view, |m| m.core_site(step))?;
    Ok((view.buffer, view.offset))
}

fn enqueue(c: &mut Compiler<'_>, op: &Op) -> Made {
    let local = match op.attributes.get("operandSegmentSizes") {
        Some(sizes) => *sizes == Attr::I32s(vec![1, 0, 1, 1, 0, 0]),
        None => op.operands.len() == 3,
    };
    if !local {
        return Err("a copy to another device or core is not supported: one core is simulated".into());
    }
    let (source, target) = (memref(c, op, 0)?, memref(c, op, 1)?);
    if source.element != target.element || source.shape != target.shape {
        let (from, to) = (c.operand(op, 0)?, c.operand(op, 1)?);
        return Err(format!("the source {from} and the target {to} do not have one shape and element").into());
    }
    c.element(c.operand(op, 0)?)?;
    semaphore(c, op, 2, &Type::DmaSemaphore)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let semaphore = id(m, step, 2)?;
        let (source, target) = (m.view(step, 0).clone(), m.view(step, 1).clone());
        if source.shape() != target.shape() {
            let message = format!("this copies {:?} elements to {:?}", source.shape(), target.shape());
            return Err(Stop::Fault(step.place, message));
        }
        let agent = Agent::Copy(m.copies.next_number());
        m.start_copy(source, target, semaphore, agent, step.place)
    }))
}

/// Waits for as many bytes as the memref that was copied to has.
fn wait_copy(c: &mut Compiler<'_>, op: &Op, semaphore_operand: usize, target: usize) -> Made {
    semaphore(c, op, semaphore_operand, &Type::DmaSemaphore)?;
    memref(c, op, target)?;
    c.element(c.operand(op, target)?)?;
    if op.operands.len() > 3 {
        return Err("a wait for another device or core is not supported: one core is simulated".into());
    }
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let semaphore = id(m, step, semaphore_operand)?;
        let view = m.view(step, target);
        let bytes = (view.elements() * view.unit()) as i64;
        let site = m.core_site(step);
        m.wait(semaphore, bytes, site)
    }))
}

fn allocate(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    if !matches!(c.result(op, 0)?, Type::MemRef(_)) {
        return Err("the result is no memref".into());
    }
    let shape = c.extents(c.result(op, 0)?)?;
    let name =
        op.place.map_or_else(|| "semaphore".to_owned(), |place| format!("semaphore of line {}", place.line));
    Ok(Box::new(move |m, step| {
        let view = m.allocate(Buffer::poisoned(name.clone(), MemorySpace::Semaphore, &shape, None));
        m.set(step, Value::View(view));
        Ok(())
    }))
}

fn counted(c: &Compiler<'_>, op: &Op) -> Made<()> {
    c.arity(op, 2, 0)
        .map_err(|_| "a semaphore of another device or core is not supported: one core is simulated")?;
    semaphore(c, op, 0, &Type::Semaphore)?;
    c.scalar_integer(c.operand(op, 1)?)
}

fn signal(c: &mut Compiler<'_>, op: &Op) -> Made {
    counted(c, op)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let (id, amount, site) = (id(m, step, 0)?, m.integer(step, 1), m.core_site(step));
        m.copies.signal(id, amount, site);
        Ok(())
    }))
}

fn wait(c: &mut Compiler<'_>, op: &Op) -> Made {
    counted(c, op)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let (id, amount, site) = (id(m, step, 0)?, m.integer(step, 1), m.core_site(step));
        m.wait(id, amount, site)
    }))
}

fn read(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    memref(c, op, 0)?;
    c.scalar_integer(c.result(op, 0)?)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let id = id(m, step, 0)?;
        let count = m.copies.count(id);
        m.set(step, Value::Integer(count));
        Ok(())
    }))
}
