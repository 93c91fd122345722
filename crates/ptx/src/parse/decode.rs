//! From the name of an instruction to what it does.

use octile_core::device::hopper::HopperGpu;

use super::operands::{Operands, Problem};
use crate::program::{
    FloatOp, IntegerOp, Op, OtherLane, Pair, Product, Registers, Relation, Special, TensorLoad, UnaryOp,
    Value, WideSource,
};

pub(super) fn decode(name: &str, mut operands: Operands<'_>) -> Result<Op, Problem> {
    let op = operation(name, &mut operands)?;
    operands.end()?;
    Ok(op)
}

fn operation(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
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
        "ld.param.u32" => Op::Parameter(of.word()?, parameter(of)?),
        "ld.param.u64" => Op::ParameterWide(of.wide()?, parameter(of)?),
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
            Op::Branch(of.names.label(label)?)
        }
        "ret" => Op::Return,
        // They steer caches and the overlap of kernels.
        "prefetch.tensormap"
        | "griddepcontrol.launch_dependents"
        | "createpolicy.fractional.L2::evict_first.b64"
        | "createpolicy.fractional.L2::evict_last.b64" => {
            of.skip_all();
            Op::Nothing
        }
        "fence.mbarrier_init.release.cluster" => Op::FenceBarriers,
        "setmaxnreg.dec.sync.aligned.u32" => Op::SetRegisters(Registers::Down(registers(of)?)),
        "setmaxnreg.inc.sync.aligned.u32" => Op::SetRegisters(Registers::Up(registers(of)?)),
        "wgmma.fence.sync.aligned" => Op::FenceProducts,
        "griddepcontrol.wait" => Op::WaitForPrevious,
        "bar.sync" | "barrier.cta.sync.aligned" => {
            Op::BlockBarrier { id: of.value()?, threads: threads(of)? }
        }
        "bar.warp.sync" => {
            whole_warp(of)?;
            Op::WarpBarrier
        }
        "elect.sync" => {
            let text = of.text()?;
            let predicate = text.strip_prefix("_|").ok_or("the index of the elected lane is not known")?;
            let op = Op::Elect(of.names.predicate(predicate)?);
            whole_warp(of)?;
            op
        }
        "barrier.cluster.arrive.release" => Op::ClusterArrive,
        "barrier.cluster.wait.acquire" => Op::ClusterWait,
        "mapa.shared::cluster.u32" => Op::MapToBlock(of.word()?, of.value()?, of.value()?),
        "wgmma.commit_group.sync.aligned" => Op::CommitProducts,
        "wgmma.wait_group.sync.aligned" => Op::WaitProducts(of.number()? as usize),
        "stmatrix.sync.aligned.m8n8.x4.shared.b16" => {
            let (at, values) = (of.shared()?, of.value_list()?);
            Op::StoreMatrices(at, values.try_into().map_err(|_| "four matrices come in four registers")?)
        }
        "movmatrix.sync.aligned.m8n8.trans.b16" => Op::TransposeMatrix(of.word()?, of.value()?),
        _ if name.starts_with("mbarrier.") => return barrier(name, of),
        _ if name.starts_with("cp.async") || name == "fence.proxy.async.shared::cta" => {
            return copy(name, of);
        }
        _ if name.starts_with("wgmma.mma_async.") => return product(name, of),
        _ if name.starts_with("ld.") || name.starts_with("st.") => return access(name, of),
        _ => return Err("this instruction is not known to the simulator".to_owned()),
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

fn parameter(of: &mut Operands<'_>) -> Result<usize, Problem> {
    let name = of.bracketed()?;
    of.names.parameter(name).ok_or_else(|| format!("there is no parameter `{name}`"))
}

fn move_word(of: &mut Operands<'_>) -> Result<Op, Problem> {
    let to = of.word_list()?;
    let from = of.text()?;
    let special = match from {
        "%tid.x" => Some(Special::Thread),
        "%ctaid.x" => Some(Special::Block),
        "%ctaid.y" => Some(Special::BlockY),
        "%nctaid.x" => Some(Special::Blocks),
        "%clusterid.x" => Some(Special::Cluster),
        "%nclusterid.x" => Some(Special::Clusters),
        "%cluster_ctarank" => Some(Special::ClusterRank),
        "shared_memory" => Some(Special::SharedMemory),
        _ => None,
    };
    let halves = from.strip_prefix('{').and_then(|from| from.strip_suffix('}'));
    Ok(match (to.as_slice(), special, halves) {
        (&[to], Some(special), _) => Op::Special(to, special),
        (&[to], _, Some(halves)) => Op::Join(to, Operands::split(of.names, halves).values()?),
        (&[to], ..) => Op::Move(to, of.names.value(from)?),
        (&[low, high], ..) => Op::Split([low, high], of.names.value(from)?),
        _ => return Err("a register is moved to one register or to two halves".to_owned()),
    })
}

fn move_wide(of: &mut Operands<'_>) -> Result<Op, Problem> {
    let to = of.wide()?;
    let from = of.text()?;
    let source = match from.strip_prefix('{').and_then(|from| from.strip_suffix('}')) {
        Some(halves) => {
            let [low, high] = Operands::split(of.names, halves).values()?;
            WideSource::Halves(low, high)
        }
        None => match of.names.parameter(from) {
            Some(parameter) => WideSource::Map(parameter),
            None => WideSource::Register(of.names.wide(from)?),
        },
    };
    Ok(Op::MoveWide(to, source))
}

/// The lanes are those of a whole warp: another clamp or other members are not known to the simulator.
fn shuffle(of: &mut Operands<'_>, other: fn(u32) -> OtherLane) -> Result<Op, Problem> {
    let op = Op::Shuffle(of.word()?, of.value()?, other(of.number()?));
    if of.number()? != 31 {
        return Err("its lanes are not those of a whole warp".to_owned());
    }
    whole_warp(of)?;
    Ok(op)
}

/// The mask of all lanes.
fn whole_warp(of: &mut Operands<'_>) -> Result<(), Problem> {
    if of.number()? == u32::MAX { Ok(()) } else { Err("not all lanes take part".to_owned()) }
}

/// How many threads a barrier waits for, where it says so.
fn threads(of: &mut Operands<'_>) -> Result<Option<u32>, Problem> {
    if of.is_empty() {
        return Ok(None);
    }
    let threads = of.number()?;
    if (32..=1024).contains(&threads) && threads.is_multiple_of(32) {
        Ok(Some(threads))
    } else {
        Err(format!("{threads} threads are not 1 to 32 whole warps"))
    }
}

/// How many registers of the machine a thread is to have.
fn registers(of: &mut Operands<'_>) -> Result<usize, Problem> {
    const UNIT: usize = HopperGpu::REGISTER_UNIT;
    let (least, most) = (Registers::LEAST, Registers::MOST);
    let registers = of.number()? as usize;
    if (least..=most).contains(&registers) && registers.is_multiple_of(UNIT) {
        Ok(registers)
    } else {
        Err(format!(
            "a thread cannot have {registers} registers, but a multiple of {UNIT} from {least} to {most}"
        ))
    }
}

/// Loads and stores of `.vN` registers, whatever they say about caches.
fn access(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
    let parts: Vec<&str> = name.split('.').collect();
    let [does, space, modifiers @ .., kind] = parts.as_slice() else {
        return Err("an access names a memory and a type".to_owned());
    };
    let in_global = match *space {
        "global" => true,
        "shared" | "shared::cluster" => false,
        _ => return Err("it is neither about `.global` nor about `.shared` memory".to_owned()),
    };
    let bytes = match *kind {
        "b16" => 2,
        "b32" | "f32" | "u32" => 4,
        _ => return Err("its type is not known to the simulator".to_owned()),
    };
    let (mut registers, mut has_policy) = (1, false);
    for modifier in modifiers {
        match *modifier {
            "v2" => registers = 2,
            "v4" => registers = 4,
            "nc" | "L1::no_allocate" => {}
            "L2::cache_hint" => has_policy = true,
            _ => return Err(format!("`.{modifier}` is not known to the simulator")),
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
        return Err(format!("it takes {registers} registers, not {given}"));
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
        Ok(Op::Arrive { at, expecting: if expects { Some(of.value()?) } else { None } })
    };
    let test = |of: &mut Operands<'_>, waits: bool| {
        Ok(Op::Test { done: of.predicate()?, at: of.shared()?, parity: of.value()?, waits })
    };
    match name {
        "mbarrier.init.shared::cta.b64" => {
            let (at, arrivals) = (of.shared()?, of.number()?);
            if arrivals == 0 || arrivals >= 1 << 20 {
                return Err(format!(
                    "a barrier does not count {arrivals} arrivals, but 1 to {}",
                    (1 << 20) - 1
                ));
            }
            Ok(Op::BarrierInit(at, arrivals))
        }
        "mbarrier.arrive.shared::cta.b64" | "mbarrier.arrive.shared::cluster.b64" => arrive(of, false),
        "mbarrier.arrive.expect_tx.shared::cta.b64" => arrive(of, true),
        "mbarrier.test_wait.parity.shared::cta.b64" => test(of, false),
        "mbarrier.try_wait.parity.shared::cta.b64" => test(of, true),
        _ => Err("this use of a barrier is not known to the simulator".to_owned()),
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
            _ => return Err(format!("`{modifiers}` is not known to the simulator")),
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
                return Err(format!("it cannot copy {bytes} bytes at a time"));
            }
            Op::Copy { to, from, bytes: bytes as usize, taken: of.value()? }
        }
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64" => Op::ArriveAfterCopies(of.shared()?),
        "fence.proxy.async.shared::cta" => Op::FenceStores,
        _ => return Err("this copy is not known to the simulator".to_owned()),
    })
}

/// `wgmma.mma_async.sync.aligned.m64nNk32.f32.e4m3.e4m3 {sums}, a, b, adds, 1, 1`
fn product(name: &str, of: &mut Operands<'_>) -> Result<Op, Problem> {
    let columns = name
        .strip_prefix("wgmma.mma_async.sync.aligned.m64n")
        .and_then(|name| name.strip_suffix("k32.f32.e4m3.e4m3"))
        .and_then(|columns| columns.parse().ok())
        .filter(|columns: &usize| (8..=256).contains(columns) && columns.is_multiple_of(8))
        .ok_or("this product is not known to the simulator")?;
    let sums = of.word_list()?;
    if sums.len() * 2 != columns {
        return Err(format!("{columns} columns need {} registers, not {}", columns / 2, sums.len()));
    }
    let (a, b, adds) = (of.wide()?, of.wide()?, of.predicate()?);
    for sign in 0..2 {
        if !matches!(of.value()?, Value::Number(1)) {
            return Err(format!("the sign of operand {sign} is not 1"));
        }
    }
    Ok(Op::Product(Product { sums, a, b, adds }))
}
