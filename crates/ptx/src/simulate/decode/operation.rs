//! From opcode and operands to an operation.

use octile_core::device::hopper::HopperGpu;

use super::operands::{Operands, Problem};
use crate::{
    ir::Operand,
    simulate::program::{
        FloatOp, IntegerOp, Op, OtherLane, Pair, Registers, Relation, Special, TensorLoad, UnaryOp, Value,
        Wgmma, WideSource,
    },
};

/// The operation of an opcode, which takes the operands that it needs.
pub(super) fn decode(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
    if let Some(op) = integer_op(name) {
        return Ok(Op::Integer(op, of.word()?, of.value()?, of.value()?));
    }
    if let Some(relation) = relation(name) {
        return Ok(Op::Compare(relation, of.predicate()?, of.value()?, of.value()?));
    }
    if let Some(op) = float_op(name) {
        return Ok(Op::Float(op, of.word()?, of.value()?, of.value()?));
    }
    if let Some(op) = unary_op(name) {
        return Ok(Op::Unary(op, of.word()?, of.value()?));
    }
    Ok(match name {
        "mad.lo.u32" => Op::MultiplyAdd(of.word()?, of.values()?),
        "mad.wide.u32" => Op::MultiplyAddWide(of.wide()?, of.values()?, of.wide()?),
        "add.u64" => Op::AddWide(of.wide()?, of.wide()?, of.wide_number()?),
        "and.pred" => Op::Both(of.predicate()?, of.predicate()?, of.predicate()?),
        "selp.b32" | "selp.f32" => Op::Select(of.word()?, of.values()?, of.predicate()?),
        "mov.b16" | "mov.b32" | "mov.f32" | "mov.u32" => return move_word(of),
        "mov.b64" => return move_wide(of),
        "cvta.to.global.u64" | "cvta.param.u64" => Op::MoveWide(of.wide()?, WideSource::Register(of.wide()?)),
        "ld.param.u32" => Op::Parameter(of.word()?, of.parameter()?),
        "ld.param.u64" => Op::ParameterWide(of.wide()?, of.parameter()?),
        "fma.rn.f32" => Op::Fma(of.word()?, of.values()?),
        "cvt.rn.bf16x2.f32" => Op::Pack(Pair::Bf16, of.word()?, of.values()?),
        "cvt.rn.f16x2.f32" => Op::Pack(Pair::F16, of.word()?, of.values()?),
        "cvt.rn.satfinite.e4m3x2.f32" => Op::Pack(Pair::E4m3, of.word()?, of.values()?),
        "max.xorsign.abs.bf16x2" => Op::MaxMagnitudes(Pair::Bf16, of.word()?, of.values()?),
        "max.xorsign.abs.f16x2" => Op::MaxMagnitudes(Pair::F16, of.word()?, of.values()?),
        "atom.shared.max.u32" => Op::AtomicMax { to: of.word()?, at: of.shared()?, value: of.value()? },
        "shfl.sync.bfly.b32" => shuffle(of, OtherLane::Xor)?,
        "shfl.sync.idx.b32" => shuffle(of, OtherLane::Index)?,
        "bra" => {
            let label = of.text()?;
            let target = of.names.labels.get(label);
            Op::Branch(*target.ok_or_else(|| format!("label `{label}` is not defined"))?)
        }
        "ret" => Op::Return,
        "prefetch.tensormap" => Op::PrefetchTensorMap(of.global()?),
        // Hints for caches and for PDL.
        "griddepcontrol.launch_dependents"
        | "createpolicy.fractional.L2::evict_first.b64"
        | "createpolicy.fractional.L2::evict_last.b64" => {
            of.skip_all();
            Op::Nothing
        }
        "fence.mbarrier_init.release.cluster" => Op::FenceBarriers,
        "setmaxnreg.dec.sync.aligned.u32" => Op::SetRegisters(Registers::Down(registers(of)?)),
        "setmaxnreg.inc.sync.aligned.u32" => Op::SetRegisters(Registers::Up(registers(of)?)),
        "wgmma.fence.sync.aligned" => Op::FenceWgmma,
        "griddepcontrol.wait" => Op::WaitForPreviousKernel,
        "bar.sync" | "barrier.cta.sync.aligned" => Op::CtaBarrier { id: of.value()?, threads: threads(of)? },
        "bar.warp.sync" => {
            whole_warp(of)?;
            Op::WarpBarrier
        }
        "elect.sync" => {
            let Operand::Pair(lane, predicate) = of.next()? else {
                return Err("the destination is `_|predicate`".to_owned());
            };
            if lane != "_" {
                return Err("the simulator does not give the index of the elected lane: use `_`".to_owned());
            }
            let op = Op::Elect(of.names.predicate(predicate)?);
            whole_warp(of)?;
            op
        }
        "barrier.cluster.arrive.release" => Op::ClusterArrive,
        "barrier.cluster.wait.acquire" => Op::ClusterWait,
        "mapa.shared::cluster.u32" => Op::MapToCta(of.word()?, of.value()?, of.value()?),
        "wgmma.commit_group.sync.aligned" => Op::CommitWgmma,
        "wgmma.wait_group.sync.aligned" => Op::WaitWgmma(of.number()? as usize),
        "stmatrix.sync.aligned.m8n8.x4.shared.b16" => {
            let (at, values) = (of.shared()?, of.value_list()?);
            Op::StoreMatrices(at, values.try_into().map_err(|_| "it takes four registers")?)
        }
        "movmatrix.sync.aligned.m8n8.trans.b16" => Op::TransposeMatrix(of.word()?, of.value()?),
        _ if name.starts_with("mbarrier.") => return barrier(name, of),
        _ if name.starts_with("cp.async") || name == "fence.proxy.async.shared::cta" => {
            return copy(name, of);
        }
        _ if name.starts_with("wgmma.mma_async.") => return wgmma(name, of),
        _ if name.starts_with("ld.") || name.starts_with("st.") => return access(name, of),
        _ => return Err("the simulator does not support this instruction".to_owned()),
    })
}

fn integer_op(name: &str) -> Option<IntegerOp> {
    Some(match name {
        "add.u32" => IntegerOp::Add,
        "sub.u32" => IntegerOp::Sub,
        "mul.lo.u32" => IntegerOp::Mul,
        "mul.hi.u32" => IntegerOp::MulHigh,
        "div.u32" => IntegerOp::Div,
        "rem.u32" => IntegerOp::Rem,
        "min.u32" => IntegerOp::Min,
        "and.b32" => IntegerOp::And,
        "or.b32" => IntegerOp::Or,
        "xor.b32" => IntegerOp::Xor,
        "shl.b32" => IntegerOp::Shl,
        "shr.u32" => IntegerOp::Shr,
        _ => return None,
    })
}

fn relation(name: &str) -> Option<Relation> {
    Some(match name {
        "setp.eq.u32" => Relation::Eq,
        "setp.ne.u32" => Relation::Ne,
        "setp.lt.u32" => Relation::Lt,
        "setp.ge.u32" => Relation::Ge,
        "setp.eq.f32" => Relation::EqFloat,
        "setp.lt.f32" => Relation::LtFloat,
        _ => return None,
    })
}

fn float_op(name: &str) -> Option<FloatOp> {
    Some(match name {
        "add.rn.f32" => FloatOp::Add,
        "mul.rn.f32" => FloatOp::Mul,
        "div.rn.f32" => FloatOp::Div,
        "max.f32" => FloatOp::Max,
        _ => return None,
    })
}

fn unary_op(name: &str) -> Option<UnaryOp> {
    Some(match name {
        "abs.f32" => UnaryOp::Abs,
        "neg.f32" => UnaryOp::Negate,
        "rcp.approx.ftz.f32" => UnaryOp::Reciprocal,
        "cvt.f32.f16" => UnaryOp::WidenF16,
        _ => return None,
    })
}

fn move_word(of: &mut Operands<'_>) -> Result<Op, Problem> {
    let to = of.word_list()?;
    Ok(match (&to[..], of.next()?) {
        (&[to], Operand::Vector(halves)) => Op::Join(to, Operands::new(of.names, halves).values()?),
        (&[to], Operand::Word(from)) => match special(from) {
            Some(special) => Op::Special(to, special),
            None => Op::Move(to, of.names.value(from)?),
        },
        (&[low, high], Operand::Word(from)) => Op::Split([low, high], of.names.value(from)?),
        _ => return Err("a register is moved to one register or to two halves".to_owned()),
    })
}

fn special(name: &str) -> Option<Special> {
    Some(match name {
        "%tid.x" => Special::Thread,
        "%ctaid.x" => Special::Cta,
        "%ctaid.y" => Special::CtaY,
        "%nctaid.x" => Special::Ctas,
        "%clusterid.x" => Special::Cluster,
        "%nclusterid.x" => Special::Clusters,
        "%cluster_ctarank" => Special::ClusterRank,
        "shared_memory" => Special::SharedMemory,
        _ => return None,
    })
}

fn move_wide(of: &mut Operands<'_>) -> Result<Op, Problem> {
    let to = of.wide()?;
    let source = match of.next()? {
        Operand::Vector(halves) => {
            let [low, high] = Operands::new(of.names, halves).values()?;
            WideSource::Halves(low, high)
        }
        Operand::Word(from) => match of.names.parameter(from) {
            Some(parameter) => WideSource::Map(parameter),
            None => WideSource::Register(of.names.wide(from)?),
        },
        other => return Err(format!("`{other}` is not a 64-bit value")),
    };
    Ok(Op::MoveWide(to, source))
}

/// A shuffle among all 32 lanes; no other clamp or member mask is supported.
fn shuffle(of: &mut Operands<'_>, other: fn(u32) -> OtherLane) -> Result<Op, Problem> {
    let op = Op::Shuffle(of.word()?, of.value()?, other(of.number()?));
    if of.number()? != 31 {
        return Err("the simulator shuffles whole warps: use clamp 31".to_owned());
    }
    whole_warp(of)?;
    Ok(op)
}

/// The member mask of all lanes.
fn whole_warp(of: &mut Operands<'_>) -> Result<(), Problem> {
    if of.number()? == u32::MAX {
        Ok(())
    } else {
        Err("the simulator needs all lanes to take part: use mask -1".to_owned())
    }
}

/// The optional thread count of a named barrier.
fn threads(of: &mut Operands<'_>) -> Result<Option<u32>, Problem> {
    if of.is_empty() {
        return Ok(None);
    }
    let threads = of.number()?;
    if (32..=1024).contains(&threads) && threads.is_multiple_of(32) {
        Ok(Some(threads))
    } else {
        Err(format!("a barrier is for 1 to 32 whole warps, not {threads} threads"))
    }
}

/// The register count of `setmaxnreg`.
fn registers(of: &mut Operands<'_>) -> Result<usize, Problem> {
    const UNIT: usize = HopperGpu::REGISTER_UNIT;
    let (least, most) = (Registers::MIN, Registers::MAX);
    let registers = of.number()? as usize;
    if (least..=most).contains(&registers) && registers.is_multiple_of(UNIT) {
        Ok(registers)
    } else {
        Err(format!("{registers} registers per thread: use a multiple of {UNIT} from {least} to {most}"))
    }
}

/// Loads and stores of `.vN` registers. Cache hints have no effect.
fn access(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
    let parts: Vec<&str> = name.split('.').collect();
    let [does, space, modifiers @ .., kind] = parts.as_slice() else {
        return Err("an access has a state space and a type".to_owned());
    };
    let in_global = match *space {
        "global" => true,
        "shared" | "shared::cluster" => false,
        _ => return Err("the simulator supports `.global` and `.shared` memory".to_owned()),
    };
    let bytes = match *kind {
        "b16" => 2,
        "b32" | "f32" | "u32" => 4,
        _ => return Err(format!("the simulator does not support type `.{kind}` here")),
    };
    let (mut registers, mut has_policy) = (1, false);
    for modifier in modifiers {
        match *modifier {
            "v2" => registers = 2,
            "v4" => registers = 4,
            "nc" | "L1::no_allocate" => {}
            "L2::cache_hint" => has_policy = true,
            _ => return Err(format!("the simulator does not support `.{modifier}`")),
        }
    }
    let (op, given) = if *does == "ld" {
        let to = of.word_list()?;
        let given = to.len();
        (Op::Load { to, at: of.at(in_global)?, bytes }, given)
    } else {
        let (at, from) = (of.at(in_global)?, of.value_list()?);
        let given = from.len();
        (Op::Store { from, at, bytes }, given)
    };
    if given != registers {
        return Err(format!("{registers} registers are needed, not {given}"));
    }
    if has_policy {
        of.wide()?;
    }
    Ok(op)
}

fn barrier(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
    let arrive = |of: &mut Operands<'_>, expects: bool| {
        of.text()?;
        let at = of.shared()?;
        let expecting = if expects { Some(of.value()?) } else { None };
        let times = if of.is_empty() { 1 } else { of.number()? };
        if times == 0 {
            return Err("an arrival counts once at least".to_owned());
        }
        Ok(Op::Arrive { at, times, expecting })
    };
    let test = |of: &mut Operands<'_>, waits: bool| {
        Ok(Op::Test { done: of.predicate()?, at: of.shared()?, parity: of.value()?, waits })
    };
    match name {
        "mbarrier.init.shared::cta.b64" => {
            let (at, arrivals) = (of.shared()?, of.number()?);
            if arrivals == 0 || arrivals >= 1 << 20 {
                return Err(format!("{arrivals} arrivals: an mbarrier counts 1 to {}", (1 << 20) - 1));
            }
            Ok(Op::BarrierInit(at, arrivals))
        }
        "mbarrier.arrive.shared::cta.b64" | "mbarrier.arrive.shared::cluster.b64" => arrive(of, false),
        "mbarrier.arrive.expect_tx.shared::cta.b64" => arrive(of, true),
        "mbarrier.test_wait.parity.shared::cta.b64" => test(of, false),
        "mbarrier.try_wait.parity.shared::cta.b64" => test(of, true),
        _ => Err("the simulator does not support this mbarrier operation".to_owned()),
    }
}

fn copy(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
    const LOAD: &str = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes";
    if let Some(modifiers) = name.strip_prefix(LOAD) {
        let (is_multicast, has_policy) = match modifiers {
            "" => (false, false),
            ".multicast::cluster" => (true, false),
            ".L2::cache_hint" => (false, true),
            ".multicast::cluster.L2::cache_hint" => (true, true),
            _ => return Err(format!("the simulator does not support `{modifiers}`")),
        };
        let to = of.shared()?;
        let (map, column, row) = of.tile()?;
        let barrier = of.shared()?;
        let mask = if is_multicast { Some(of.value()?) } else { None };
        if has_policy {
            of.wide()?;
        }
        return Ok(Op::TensorLoad(TensorLoad { to, map, column, row, barrier, mask }));
    }
    Ok(match name {
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" => {
            Op::BulkLoad { to: of.shared()?, from: of.global()?, bytes: of.value()?, barrier: of.shared()? }
        }
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group" => {
            let (map, column, row) = of.tile()?;
            Op::TensorStore { map, column, row, from: of.shared()? }
        }
        "cp.async.bulk.commit_group" => Op::CommitStores,
        "cp.async.bulk.wait_group.read" if of.number()? == 0 => Op::WaitStores,
        "cp.async.ca.shared.global" | "cp.async.cg.shared.global" => {
            let (to, from, bytes) = (of.shared()?, of.global()?, of.number()?);
            let sizes: &[u32] = if name.starts_with("cp.async.ca") { &[4, 8, 16] } else { &[16] };
            if !sizes.contains(&bytes) {
                return Err(format!("cp.async cannot copy {bytes} bytes at a time: use one of {sizes:?}"));
            }
            Op::Copy { to, from, bytes: bytes as usize, taken: of.value()? }
        }
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64" => Op::ArriveAfterCopies(of.shared()?),
        "fence.proxy.async.shared::cta" => Op::FenceStores,
        _ => return Err("the simulator does not support this copy".to_owned()),
    })
}

/// `wgmma.mma_async.sync.aligned.m64nNk32.f32.e4m3.e4m3 {sums}, a, b, adds, 1, 1`
fn wgmma(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
    let columns = name
        .strip_prefix("wgmma.mma_async.sync.aligned.m64n")
        .and_then(|name| name.strip_suffix("k32.f32.e4m3.e4m3"))
        .and_then(|columns| columns.parse().ok())
        .filter(|columns: &usize| (8..=256).contains(columns) && columns.is_multiple_of(8))
        .ok_or("the simulator supports m64nNk32.f32.e4m3.e4m3 with N from 8 to 256 in steps of 8")?;
    let sums = of.word_list()?;
    if sums.len() * 2 != columns {
        return Err(format!("{columns} columns need {} registers, not {}", columns / 2, sums.len()));
    }
    let (a, b, adds) = (of.wide()?, of.wide()?, of.predicate()?);
    for sign in 0..2 {
        if !matches!(of.value()?, Value::Number(1)) {
            return Err(format!("the simulator does not negate operands: use 1 for scale {sign}"));
        }
    }
    Ok(Op::Wgmma(Wgmma { sums, a, b, adds }))
}
