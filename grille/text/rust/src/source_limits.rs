//! What a template's source may hold, looked at before it is parsed: the compiler computes constant
//! expressions and walks expressions in time that grows with the square of their length.

use minijinja::machinery::{tokenize, Token, WhitespaceConfig};
use minijinja::syntax::SyntaxConfig;

const MAX_TAG_TOKENS: usize = 4000;
/// Bytes or items that all multiplied constants of a template may make.
const MAX_CONSTANT: f64 = 1e7;

#[derive(Default)]
struct Tag {
    tokens: usize,
    multiplies: bool,
    raises: bool,
    sequence_size: f64,
    /// An upper bound of what the tag's numbers make when multiplied.
    product: f64,
}

impl Tag {
    fn see(&mut self, token: &Token) {
        self.tokens += 1;
        let number = match token {
            Token::Mul => return self.multiplies = true,
            Token::Pow => return self.raises = true,
            Token::BracketOpen | Token::Comma => return self.sequence_size += 1.0,
            Token::Str(text) => return self.sequence_size += text.len() as f64,
            Token::String(text) => return self.sequence_size += text.len() as f64,
            Token::Int(value) => *value as f64,
            Token::Int128(value) => **value as f64,
            Token::Float(value) => value.abs(),
            _ => return,
        };
        self.product *= number.max(1.0);
    }

    /// Bytes or items that this tag's constants can become.
    fn size(&self) -> f64 {
        match (self.multiplies && self.sequence_size > 0.0, self.raises) {
            (false, _) => 0.0,
            (true, true) => f64::INFINITY,
            (true, false) => self.product * self.sequence_size,
        }
    }
}

/// `Err((line, what))` when the source goes beyond a limit. Syntax errors are left to the parser.
pub fn check(source: &str, whitespace: WhitespaceConfig) -> Result<(), (usize, String)> {
    let mut tag = Tag {
        product: 1.0,
        ..Tag::default()
    };
    let mut total = 0.0;
    for item in tokenize(source, false, SyntaxConfig::default(), whitespace) {
        let Ok((token, span)) = item else { break };
        match token {
            Token::VariableStart | Token::BlockStart => {
                tag = Tag {
                    product: 1.0,
                    ..Tag::default()
                }
            }
            Token::VariableEnd | Token::BlockEnd => {
                total += tag.size();
                if total > MAX_CONSTANT {
                    let what = "multiplied constants are too large".to_string();
                    return Err((span.start_line as usize, what));
                }
            }
            token => tag.see(&token),
        }
        if tag.tokens > MAX_TAG_TOKENS {
            let what = format!("an expression has more than {MAX_TAG_TOKENS} tokens");
            return Err((span.start_line as usize, what));
        }
    }
    Ok(())
}
