//! The Hugging Face tokenizer behind `grille_text_tokenizer_*`.

use crate::abi::{bytes_in, guarded, on_deep_stack, text_in, Buffer, Bytes, Failure, Ids, Status};
use std::str::FromStr;
use tokenizers::Tokenizer;

const MAX_ID: u32 = i32::MAX as u32;
const PARSE_STACK: usize = 64 << 20;

pub struct Handle {
    tokenizer: Tokenizer,
    end_id: u64,
}

fn parse(json: &str) -> Result<Handle, Failure> {
    let mut tokenizer = Tokenizer::from_str(json).map_err(|e| Failure::corrupt(e.to_string()))?;
    // A file may have been saved with the truncation and padding of somebody's training run.
    tokenizer
        .with_truncation(None)
        .map_err(|e| Failure::corrupt(e.to_string()))?;
    tokenizer.with_padding(None);
    let end_id = tokenizer
        .get_vocab(true)
        .values()
        .map(|&id| id as u64 + 1)
        .max()
        .unwrap_or(0);
    if end_id > MAX_ID as u64 {
        return Err(Failure::corrupt(format!(
            "token id {} does not fit in 31 bits",
            end_id - 1
        )));
    }
    Ok(Handle { tokenizer, end_id })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_new(
    json: *const u8,
    size: usize,
    out: *mut *mut Handle,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let json = text_in(json, size).map_err(|f| Failure::corrupt(f.message))?;
        let handle = on_deep_stack(PARSE_STACK, || parse(json))?;
        *out = Box::into_raw(Box::new(handle));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_free(handle: *mut Handle) {
    if !handle.is_null() {
        let _ = crate::abi::caught(|| {
            drop(Box::from_raw(handle));
            Ok(())
        });
    }
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_encode(
    handle: *const Handle,
    text: *const u8,
    size: usize,
    add_special_tokens: i32,
    out: *mut Ids,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let text = text_in(text, size)?;
        let encoding = (*handle)
            .tokenizer
            .encode_fast(text, add_special_tokens != 0)
            .map_err(|e| Failure::invalid(e.to_string()))?;
        *out = Buffer::from_vec(encoding.get_ids().to_vec());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_decode(
    handle: *const Handle,
    ids: *const u32,
    count: usize,
    skip_special_tokens: i32,
    out: *mut Bytes,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let ids = if count == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(ids, count)
        };
        let text = (*handle)
            .tokenizer
            .decode(ids, skip_special_tokens != 0)
            .map_err(|e| Failure::invalid(e.to_string()))?;
        *out = Buffer::from_vec(text.into_bytes());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_token_to_id(
    handle: *const Handle,
    token: *const u8,
    size: usize,
    out: *mut i64,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        // A token is text, so what is not UTF-8 is no token.
        let token = std::str::from_utf8(bytes_in(token, size)).ok();
        *out = token
            .and_then(|t| (*handle).tokenizer.token_to_id(t))
            .map_or(-1, i64::from);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_id_to_token(
    handle: *const Handle,
    id: u32,
    out: *mut Bytes,
    found: *mut i32,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let token = (*handle).tokenizer.id_to_token(id);
        *found = token.is_some() as i32;
        *out = Buffer::from_vec(token.unwrap_or_default().into_bytes());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_is_special(
    handle: *const Handle,
    id: u32,
    out: *mut i32,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let added = (*handle).tokenizer.get_added_vocabulary();
        let token = added.simple_id_to_token(id);
        *out = token.is_some_and(|t| added.is_special_token(&t)) as i32;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_size(
    handle: *const Handle,
    tokens: *mut u64,
    end_id: *mut u64,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        *tokens = (*handle).tokenizer.get_vocab_size(true) as u64;
        *end_id = (*handle).end_id;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_tokenizer_to_json(
    handle: *const Handle,
    out: *mut Bytes,
    error: *mut Bytes,
) -> Status {
    guarded(error, || {
        let json = (*handle)
            .tokenizer
            .to_string(false)
            .map_err(|e| Failure::invalid(e.to_string()))?;
        *out = Buffer::from_vec(json.into_bytes());
        Ok(())
    })
}
