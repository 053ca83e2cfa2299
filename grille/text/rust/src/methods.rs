//! Python's methods of strings, dicts and lists, and the filters that must agree with Jinja2's.

use crate::budget::{charge, charge_deep, charge_shallow, materialized, shallow};
use crate::python;
use minijinja::value::{from_args, Kwargs, ValueKind};
use minijinja::{format_filter, Error, ErrorKind, FormatStyle, State, Value};

/// A width in a format string makes output out of nothing: at most four digits, none taken from the
/// arguments.
pub fn check_format(format: &str) -> Result<(), Error> {
    let mut digits = 0;
    for byte in format.bytes() {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        if digits > 4 || byte == b'*' {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "a format string has a width that is not allowed",
            ));
        }
    }
    charge(10_000 * format.bytes().filter(|b| matches!(b, b'%' | b'{')).count() as u64)
}

/// `text % arguments`.
pub fn percent(format: &str, arguments: &Value) -> Result<Value, Error> {
    check_format(format)?;
    charge_deep(arguments)?;
    let arguments: Vec<Value> = match arguments.kind() {
        ValueKind::Seq => arguments.try_iter()?.collect(),
        _ => vec![arguments.clone()],
    };
    format_filter(FormatStyle::Printf, format, &arguments).map(Value::from)
}

/// Charges for the bytes that replacing makes before they exist.
fn charge_replace(text: &str, from: &str, to: &str) -> Result<(), Error> {
    let count = if from.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(from).count()
    };
    charge((text.len() as u64).saturating_add(count as u64 * to.len() as u64))
}

/// Jinja2's `replace(s, old, new, count=None)`.
pub fn replace(
    value: &Value,
    from: &Value,
    to: &Value,
    count: Option<usize>,
) -> Result<Value, Error> {
    let (text, from, to) = (python::str(value)?, python::str(from)?, python::str(to)?);
    charge_replace(&text, &from, &to)?;
    Ok(Value::from(text.replacen(
        &from,
        &to,
        count.unwrap_or(usize::MAX),
    )))
}

/// Jinja2's `join(value, d="", attribute=None)`.
pub fn join(
    value: &Value,
    separator: Option<Value>,
    attribute: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let separator = separator
        .or(kwargs.get("d")?)
        .map_or(Ok(String::new()), |s| python::str(&s))?;
    let attribute: Option<Value> = attribute.or(kwargs.get("attribute")?);
    kwargs.assert_all_used()?;
    join_items(value, &separator, attribute.as_ref())
}

fn join_items(value: &Value, separator: &str, attribute: Option<&Value>) -> Result<Value, Error> {
    let mut out = String::new();
    for (i, item) in value.try_iter()?.enumerate() {
        if i > 0 {
            charge(separator.len() as u64)?;
            out.push_str(separator);
        }
        let item = match attribute {
            Some(name) => item.get_item(name)?,
            None => item,
        };
        out.push_str(&python::str(&item)?);
    }
    Ok(Value::from(out))
}

/// Jinja2's `indent(s, width=4, first=False, blank=False)`.
pub fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let text = python::str(value)?;
    let width: Value = width.or(kwargs.get("width")?).unwrap_or(Value::from(4));
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = blank.or(kwargs.get("blank")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let padding = match width.as_str() {
        Some(text) => text.to_string(),
        None => " ".repeat(i64::try_from(width)?.clamp(0, 1024) as usize),
    };
    charge((text.matches('\n').count() as u64 + 1) * padding.len() as u64)?;
    let mut out = String::with_capacity(text.len());
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if (i > 0 || first) && (blank || !line.trim_end_matches('\r').is_empty()) {
            out.push_str(&padding);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Methods that a value lacks in minijinja and has in Python.
pub fn call(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        match method {
            "replace" => {
                let (from, to, count): (&str, &str, Option<i64>) = from_args(args)?;
                charge_replace(text, from, to)?;
                return Ok(Value::from(match count {
                    Some(n) if n >= 0 => text.replacen(from, to, n as usize),
                    _ => text.replace(from, to),
                }));
            }
            "join" => {
                let (items,): (&Value,) = from_args(args)?;
                return join_items(items, text, None);
            }
            "removeprefix" => {
                let (prefix,): (&str,) = from_args(args)?;
                charge_shallow(value)?;
                return Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)));
            }
            "removesuffix" => {
                let (suffix,): (&str,) = from_args(args)?;
                charge_shallow(value)?;
                return Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)));
            }
            "format" => {
                check_format(text)?;
                args.iter().try_for_each(charge_deep)?;
            }
            "split" | "splitlines" => charge(16 * shallow(value))?,
            _ => {}
        }
    }
    charge_shallow(value)?;
    args.iter().try_for_each(charge_shallow)?;
    materialized(minijinja_contrib::pycompat::unknown_method_callback(
        state, value, method, args,
    )?)
}
