//! The chat template behind `grille_text_template_*`: minijinja set up as transformers sets up Jinja2.

use crate::abi::{bytes_in, guarded, on_deep_stack, text_in, Buffer, Bytes, Failure, Status};
use crate::{budget, guard, methods, python, source_limits};
use minijinja::machinery::{
    make_string_output, parse, CodeGenerator, Instructions, Vm, WhitespaceConfig,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void, CString};
use std::sync::OnceLock;

/// Values nested by hostile templates are dropped and compared recursively: at most one level for every
/// few instructions of fuel, some hundred bytes of stack a level.
const STACK_BYTES: usize = 512 << 20;
const MAX_SOURCE_BYTES: usize = 1 << 20;
const MAX_STRFTIME_BYTES: usize = 256;

type Strftime = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_char, usize) -> usize;

#[derive(Clone, Copy)]
struct Clock {
    function: Option<Strftime>,
    context: *mut c_void,
}

// The caller waits for the rendering thread, so its context outlives the use here.
unsafe impl Send for Clock {}
unsafe impl Sync for Clock {}

thread_local! {
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn strftime_now(format: &str) -> Result<String, Error> {
    let text = CString::new(format).map_err(|_| invalid("strftime_now: the format holds a NUL"))?;
    if format.is_empty() || format.len() > MAX_STRFTIME_BYTES {
        return Err(invalid(format!(
            "strftime_now: the format has {} bytes",
            format.len()
        )));
    }
    let clock = CLOCK
        .get()
        .ok_or_else(|| invalid("strftime_now: no clock"))?;
    let function = clock
        .function
        .ok_or_else(|| invalid("strftime_now: no clock"))?;
    let mut out = [0u8; 4 * MAX_STRFTIME_BYTES];
    // SAFETY: `out` has the stated capacity, `text` ends in NUL.
    let size = unsafe {
        function(
            clock.context,
            text.as_ptr(),
            out.as_mut_ptr().cast(),
            out.len(),
        )
    };
    if size == 0 || size > out.len() {
        return Err(invalid(format!(
            "strftime_now: cannot write format '{format}'"
        )));
    }
    Ok(String::from_utf8_lossy(&out[..size]).into_owned())
}

/// The message of an error that the template itself raised.
const RAISED: &str = "raised: ";

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(invalid(format!("{RAISED}{}", python::str(message)?)))
}

fn emit(out: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    if !matches!(state.auto_escape(), AutoEscape::None) {
        budget::charge_deep(value)?;
        return minijinja::escape_formatter(out, state, value);
    }
    match value.as_str() {
        Some(text) => {
            budget::charge_shallow(value)?;
            out.write_str(text)?;
        }
        None => out.write_str(&python::str(value)?)?,
    }
    Ok(())
}

fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::String | ValueKind::Seq | ValueKind::Map
    )
}

fn is_iterable(value: &Value) -> bool {
    is_sequence(value) || value.kind() == ValueKind::Iterable
}

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut env = Environment::new();
        env.set_undefined_behavior(UndefinedBehavior::Lenient);
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_recursion_limit(budget::RECURSION_LIMIT);
        env.set_fuel(Some(budget::FUEL));
        env.set_formatter(emit);
        env.set_unknown_method_callback(methods::call);
        env.add_function("raise_exception", raise_exception);
        env.add_function("strftime_now", |format: &str| strftime_now(format));
        env.add_filter("tojson", python::tojson);
        env.add_filter("string", |value: &Value| python::str(value));
        env.add_filter("join", methods::join);
        env.add_filter("replace", methods::replace);
        env.add_filter("indent", methods::indent);
        env.add_test("sequence", is_sequence);
        env.add_test("iterable", is_iterable);
        guard::install(&mut env);
        env
    })
}

/// transformers marks the model's own words with `{% generation %}` … `{% endgeneration %}`, which
/// prints its body. Written as an `if` of equal whitespace behaviour and lines.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = tag.find("%}").map(|e| e + 2) else {
            rest = tag;
            break;
        };
        let inside = &tag[2..end - 2];
        let name = inside
            .trim_start_matches(['-', '+'])
            .trim_end_matches(['-', '+'])
            .trim();
        let replacement = match name {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        match replacement {
            Some(text) => out.push_str(&tag[..end].replacen(name, text, 1)),
            None => {
                // Only the opening is passed, so that a "%}" inside a string does not lose the place.
                out.push_str("{%");
                rest = &tag[2..];
                continue;
            }
        }
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

fn failure(error: &Error, status: Status) -> Failure {
    let detail = error.detail().unwrap_or_default();
    if let Some(message) = detail.strip_prefix(RAISED) {
        return Failure {
            status: Status::Invalid,
            message: message.to_string(),
        };
    }
    let line = error
        .line()
        .map_or(String::new(), |l| format!("line {l}: "));
    let message = match error.kind() {
        ErrorKind::InvalidOperation | ErrorKind::OutOfFuel if !detail.is_empty() => {
            format!("{line}{detail}")
        }
        ErrorKind::OutOfFuel => {
            format!(
                "{line}the template does not end within {} steps",
                budget::FUEL
            )
        }
        kind if detail.is_empty() => format!("{line}{kind}"),
        kind => format!("{line}{kind}: {detail}"),
    };
    Failure { status, message }
}

/// Field order matters: the instructions borrow from the source and are dropped first.
pub struct Handle {
    instructions: Instructions<'static>,
    blocks: BTreeMap<&'static str, Instructions<'static>>,
    _source: Box<str>,
}

fn compile(source: &str) -> Result<Handle, Failure> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(Failure::corrupt(format!(
            "the template has {} bytes, at most {MAX_SOURCE_BYTES} are read",
            source.len()
        )));
    }
    let owned: Box<str> = without_generation_tags(source).into_boxed_str();
    let whitespace = WhitespaceConfig {
        keep_trailing_newline: false,
        lstrip_blocks: true,
        trim_blocks: true,
    };
    source_limits::check(&owned, whitespace)
        .map_err(|(line, what)| Failure::corrupt(format!("line {line}: {what}")))?;
    // SAFETY: the text lives in a box that the handle keeps until after the instructions are dropped;
    // moving the box does not move the text.
    let text: &'static str = unsafe { &*(owned.as_ref() as *const str) };
    let tree = parse(text, "chat_template", SyntaxConfig::default(), whitespace)
        .map_err(|e| failure(&e, Status::Corrupt))?;
    let mut generator = CodeGenerator::new("chat_template", text);
    generator.compile_stmt(&tree);
    drop(tree);
    let (code, blocks) = generator.finish();
    let blocks = blocks
        .iter()
        .map(|(&name, block)| (name, guard::rewrite(block)))
        .collect();
    Ok(Handle {
        instructions: guard::rewrite(&code),
        blocks,
        _source: owned,
    })
}

fn render(handle: &Handle, variables: &str, clock: Clock) -> Result<String, Failure> {
    let variables: serde_json::Value =
        serde_json::from_str(variables).map_err(|e| Failure::invalid(format!("variables: {e}")))?;
    CLOCK.set(Some(clock));
    let root = Value::from_serialize(&variables);
    let mut text = String::new();
    let result = Vm::new(environment()).eval(
        &handle.instructions,
        root,
        &handle.blocks,
        &mut make_string_output(&mut text),
        AutoEscape::None,
    );
    let outcome = match result {
        Ok(_) => Ok(text),
        Err(error) => Err(failure(&error, Status::Invalid)),
    };
    guard::clear_namespaces();
    outcome
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_template_new(
    source: *const u8,
    size: usize,
    out: *mut *mut Handle,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let source = text_in(source, size).map_err(|f| Failure::corrupt(f.message))?;
        let handle = on_deep_stack(STACK_BYTES, || compile(source))?;
        *out = Box::into_raw(Box::new(handle));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_template_free(handle: *mut Handle) {
    if !handle.is_null() {
        let _ = crate::abi::caught(|| {
            drop(Box::from_raw(handle));
            Ok(())
        });
    }
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_template_render(
    handle: *const Handle,
    variables: *const u8,
    size: usize,
    strftime: Option<Strftime>,
    strftime_context: *mut c_void,
    out: *mut Bytes,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let handle = &*handle;
        let variables = std::str::from_utf8(bytes_in(variables, size))
            .map_err(|_| Failure::invalid("the variables are not valid UTF-8"))?;
        let clock = Clock {
            function: strftime,
            context: strftime_context,
        };
        let text = on_deep_stack(STACK_BYTES, move || {
            budget::start(budget::for_input(variables.len()));
            render(handle, variables, clock)
        })?;
        *out = Buffer::from_vec(text.into_bytes());
        Ok(())
    })
}
