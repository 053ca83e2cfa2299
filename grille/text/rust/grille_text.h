/* The C ABI of libgrille_text.a. Every call returns a status; a panic inside never crosses it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  GRILLE_TEXT_OK = 0,
  GRILLE_TEXT_CORRUPT = 1, /* a tokenizer file or a template that cannot be read */
  GRILLE_TEXT_INVALID = 2, /* the call's arguments, or a template that raised an error */
  GRILLE_TEXT_PANIC = 3    /* a bug below the ABI */
} grille_text_status;

/* Bytes owned by the library: give them back with grille_text_bytes_free. */
typedef struct {
  char* data;
  size_t size;
} grille_text_bytes;

typedef struct {
  uint32_t* data;
  size_t size;
} grille_text_ids;

typedef struct grille_text_tokenizer grille_text_tokenizer;
typedef struct grille_text_template grille_text_template;

/* Writes strftime(format) of the caller's "now" to `out`, returns its length, or 0 if it cannot. */
typedef size_t (*grille_text_strftime)(void* context, const char* format, char* out, size_t capacity);

void grille_text_bytes_free(grille_text_bytes bytes);
void grille_text_ids_free(grille_text_ids ids);

/* On failure `*error` holds one line; on success it is empty. Texts are UTF-8; invalid UTF-8 is
   GRILLE_TEXT_INVALID. Handles may be used from several threads at once. */
grille_text_status grille_text_tokenizer_new(const char* json, size_t size, grille_text_tokenizer** out,
                                             grille_text_bytes* error);
void grille_text_tokenizer_free(grille_text_tokenizer* tokenizer);
grille_text_status grille_text_tokenizer_encode(const grille_text_tokenizer* tokenizer, const char* text,
                                                size_t size, int add_special_tokens, grille_text_ids* out,
                                                grille_text_bytes* error);
/* Ids without a token are left out, as Hugging Face does. */
grille_text_status grille_text_tokenizer_decode(const grille_text_tokenizer* tokenizer, const uint32_t* ids,
                                                size_t count, int skip_special_tokens, grille_text_bytes* out,
                                                grille_text_bytes* error);
/* *out is -1 when there is no such token. */
grille_text_status grille_text_tokenizer_token_to_id(const grille_text_tokenizer* tokenizer,
                                                     const char* token, size_t size, int64_t* out,
                                                     grille_text_bytes* error);
/* *found is 0 when there is no such id. */
grille_text_status grille_text_tokenizer_id_to_token(const grille_text_tokenizer* tokenizer, uint32_t id,
                                                     grille_text_bytes* out, int* found,
                                                     grille_text_bytes* error);
grille_text_status grille_text_tokenizer_is_special(const grille_text_tokenizer* tokenizer, uint32_t id,
                                                    int* out, grille_text_bytes* error);
/* Tokens with the added ones, and the largest id + 1. */
grille_text_status grille_text_tokenizer_size(const grille_text_tokenizer* tokenizer, uint64_t* tokens,
                                              uint64_t* end_id, grille_text_bytes* error);
grille_text_status grille_text_tokenizer_to_json(const grille_text_tokenizer* tokenizer,
                                                 grille_text_bytes* out, grille_text_bytes* error);

grille_text_status grille_text_template_new(const char* source, size_t size, grille_text_template** out,
                                            grille_text_bytes* error);
void grille_text_template_free(grille_text_template* handle);
/* `variables` is a JSON object. */
grille_text_status grille_text_template_render(const grille_text_template* handle, const char* variables,
                                               size_t size, grille_text_strftime strftime_now,
                                               void* strftime_context, grille_text_bytes* out,
                                               grille_text_bytes* error);

#ifdef __cplusplus
}
#endif
