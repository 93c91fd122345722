//! The child process: loads the plugin, compiles, and replies.

use std::io::{self, Read, Write};
use std::time::Instant;

use super::{CompileRequest, Compiled, Module, Rejection, Reply};
use crate::pjrt::{Error, Executable, Plugin, Topology};

/// Reads a request, compiles its modules in order and writes one line per module. Fails only on pipe errors:
/// everything else is a reply.
pub fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut text = String::new();
    input.read_to_string(&mut text)?;
    let request: CompileRequest = serde_json::from_str(&text)?;
    let session = match Session::start(&request) {
        Ok(session) => session,
        Err(reason) => return answer(&mut output, &Reply::NotStarted(reason)),
    };
    for module in &request.modules {
        answer(&mut output, &session.compile(module))?;
    }
    Ok(())
}

fn answer(output: &mut impl Write, reply: &Reply) -> io::Result<()> {
    // Start a new line, in case the compiler printed something.
    writeln!(output, "\n{}", serde_json::to_string(reply)?)?;
    output.flush()
}

/// What all modules of a request share.
struct Session {
    topology: Topology,
    pjrt_api: (i32, i32),
    platform_version: String,
    device_kind: String,
}

impl Session {
    fn start(request: &CompileRequest) -> Result<Self, String> {
        let plugin = Plugin::load(&request.plugin).map_err(|error| error.to_string())?;
        let target = &request.target;
        let reject = |error: Error| Rejection::of_topology(&target.topology, error).to_string();
        let topology = Topology::new(&plugin, &target.topology, &target.options).map_err(reject)?;
        let kinds = topology.device_kinds().map_err(reject)?;
        Ok(Self {
            pjrt_api: plugin.api_version(),
            platform_version: topology.platform_version().map_err(reject)?,
            device_kind: kinds.into_iter().next().unwrap_or_default(),
            topology,
        })
    }

    fn compile(&self, module: &Module) -> Reply {
        let start = Instant::now();
        let executable = self.topology.compile(&module.stablehlo, &module.options);
        let seconds = start.elapsed().as_secs_f64();
        let described = executable
            .and_then(|executable| Ok((self.describe(&executable, seconds)?, executable)))
            .map_err(Rejection::of_module);
        let stored = described.and_then(|(compiled, executable)| {
            store(&executable, module)?;
            Ok(compiled)
        });
        match stored {
            Ok(compiled) => Reply::Compiled(Box::new(compiled)),
            Err(rejection) => Reply::Rejected(rejection),
        }
    }

    fn describe(&self, executable: &Executable, seconds: f64) -> Result<Compiled, Error> {
        let cost = executable.cost_analysis()?;
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Compiled {
            pjrt_api: self.pjrt_api,
            platform_version: self.platform_version.clone(),
            device_kind: self.device_kind.clone(),
            // Optional in plugins.
            fingerprint: executable.fingerprint().ok().map(hex),
            code_bytes: executable.code_size()?,
            memory: executable.memory_stats()?,
            cost: cost.into_iter().map(|named| (named.name, named.value)).collect(),
            seconds,
        })
    }
}

/// Writes the executable to the module's output path, if it has one.
fn store(executable: &Executable, module: &Module) -> Result<(), Rejection> {
    let Some(path) = &module.executable else {
        return Ok(());
    };
    let bytes = executable.serialize().map_err(Rejection::of_module)?;
    std::fs::write(path, bytes)
        .map_err(|error| Rejection::NotStored { path: path.clone(), reason: error.to_string() })
}
