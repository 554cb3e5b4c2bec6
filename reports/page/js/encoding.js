// Bytes and numbers out of text: base 85, deflate, seven bits a byte (reports/figures/encoding.py).

// 85 printable digits without what means something in HTML or JSON.
const DIGITS = new Uint8Array(128);
for (let code = 33, n = 0; n < 85; code++) {
  if (!"\"&'<>\\`".includes(String.fromCharCode(code))) DIGITS[code] = n++;
}

function bytesOf(text) {
  const bytes = new Uint8Array(Math.ceil(text.length / 5) * 4), view = new DataView(bytes.buffer);
  for (let n = 0, at = 0; n < text.length; n += 5, at += 4) {
    let word = 0;
    for (let k = n; k < n + 5; k++) word = word * 85 + (k < text.length ? DIGITS[text.charCodeAt(k)] : 84);
    view.setUint32(at, word);
  }
  return bytes.subarray(0, Math.floor(text.length * 4 / 5));
}

export async function inflate(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// Seven bits a byte, the lowest first.
export async function numbers(text) {
  const bytes = new Uint8Array(await inflate(text)), decoded = new Float64Array(bytes.length);
  let length = 0, value = 0, factor = 1;
  for (const byte of bytes) {
    value += (byte & 127) * factor;
    if (byte > 127) factor *= 128; else { decoded[length++] = value; value = 0; factor = 1; }
  }
  return decoded.subarray(0, length);
}
