//! Values as Python writes them: `str()`, `repr()` and `json.dumps()`. Chat templates were written for
//! Jinja2, where `{{ true }}` prints `True`.

use crate::budget::{charge, charge_shallow, too_deep, MAX_DEPTH};
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::fmt::Write;

/// `repr(float)`: the shortest digits that read back; an exponent below 1e-4 and from 1e16.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{x}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        value.to_string()
    } else {
        f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float_repr)
    }
}

/// `str(value)`.
pub fn str(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::String => {
            charge_shallow(value)?;
            Ok(value.as_str().unwrap_or_default().to_string())
        }
        _ => {
            let mut out = String::new();
            repr(value, &mut out, MAX_DEPTH)?;
            Ok(out)
        }
    }
}

fn repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    charge_shallow(value)?;
    let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => repr_text(value.as_str().unwrap_or_default(), out),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&key, out, depth)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out, depth)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&item, out, depth)?;
            }
            out.push(']');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

fn repr_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                let code = c as u32;
                let _ = if code < 0x100 {
                    write!(out, "\\x{code:02x}")
                } else {
                    write!(out, "\\u{code:04x}")
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

struct Json {
    out: String,
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
}

impl Json {
    fn new_line(&mut self, level: usize) -> Result<(), Error> {
        if let Some(indent) = &self.indent {
            charge((indent.len() * level) as u64)?;
            let padding = indent.repeat(level);
            self.out.push('\n');
            self.out.push_str(&padding);
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ensure_ascii && (c as u32) > 0x7e) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        let text = match key.kind() {
            ValueKind::String => key.as_str().unwrap_or_default().to_string(),
            ValueKind::Bool => (if key.is_true() { "true" } else { "false" }).to_string(),
            ValueKind::None => "null".to_string(),
            ValueKind::Number => number(key),
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: keys must be strings, numbers, booleans or none, not {kind}"),
                ))
            }
        };
        self.text(&text);
        Ok(())
    }

    fn value(&mut self, value: &Value, level: usize) -> Result<(), Error> {
        charge_shallow(value)?;
        if level > MAX_DEPTH {
            return Err(too_deep());
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self
                .out
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => {
                let text = match number(value).as_str() {
                    "nan" => "NaN".to_string(),
                    "inf" => "Infinity".to_string(),
                    "-inf" => "-Infinity".to_string(),
                    text => text.to_string(),
                };
                self.out.push_str(&text);
            }
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.items(value, level, '[', ']')?,
            ValueKind::Map => self.items(value, level, '{', '}')?,
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: a value of type {kind} is not JSON serializable"),
                ))
            }
        }
        Ok(())
    }

    fn items(&mut self, value: &Value, level: usize, open: char, close: char) -> Result<(), Error> {
        let mut items: Vec<Value> = value.try_iter()?.collect();
        if open == '{' && self.sort_keys {
            items.sort();
        }
        self.out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push_str(&self.item_separator.clone());
            }
            self.new_line(level + 1)?;
            if open == '{' {
                self.key(item)?;
                self.out.push_str(&self.key_separator.clone());
                self.value(&value.get_item(item)?, level + 1)?;
            } else {
                self.value(item, level + 1)?;
            }
        }
        if !items.is_empty() {
            self.new_line(level)?;
        }
        self.out.push(close);
        Ok(())
    }
}

/// transformers' `tojson`: `json.dumps(x, ensure_ascii=False, indent, separators, sort_keys)`.
pub fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let named: Option<Value> = kwargs.get("indent")?;
    let indent = match named.or(indent).filter(|v| !v.is_none()) {
        None => None,
        Some(v) => Some(match v.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(i64::try_from(v)?.clamp(0, 64) as usize),
        }),
    };
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let (item_separator, key_separator) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        _ => (
            (if indent.is_some() { "," } else { ", " }).to_string(),
            ": ".to_string(),
        ),
    };
    let mut json = Json {
        out: String::new(),
        ensure_ascii: kwargs
            .get::<Option<bool>>("ensure_ascii")?
            .or(ensure_ascii)
            .unwrap_or(false),
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
    };
    kwargs.assert_all_used()?;
    json.value(value, 0)?;
    Ok(json.out)
}
