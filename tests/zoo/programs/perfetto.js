// perfetto.js - Perfetto's own trace processor, asked in SQL about a trace file.
//
//   node perfetto.js FOLDER TRACE SQL...    FOLDER has trace_processor.wasm and engine_bundle.js of Perfetto's UI
//
// Prints the rows of each query, with tabs between the columns; before them a row for each error that the trace
// processor counted in the file. Ends with 1 and one line where the trace or a query is refused.
//
// The UI runs the same program in a worker, and speaks to it in protocol buffers: TraceProcessorRpcStream of
// protos/perfetto/trace_processor/trace_processor.proto in Perfetto's sources, whose field numbers stand here.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorMethod
const PIECE = 16 << 20;                    // bytes of the trace in one request
const NULL = 1, NUMBER = 2, FLOAT = 3, TEXT = 4; // CellType

function fail(why) {
  console.log(`${trace}: ${why}`);
  process.exit(1);
}

// ---- Protocol buffers ----------------------------------------------------------------

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128))
    bytes.push(value % 128 + 128);
  return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), Buffer.from(value)]);

// All varints of a buffer, signed, 64 bits each.
function varints(buffer) {
  const values = [];
  let value = 0n, shift = 0n;
  for (const byte of buffer) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      values.push(BigInt.asIntN(64, value));
      value = shift = 0n;
    }
  }
  return values;
}

// A message: the number of each field, with its values as they stand in the buffer.
function message(buffer) {
  const fields = new Map();
  let at = 0;
  const next = () => {
    const from = at;
    while (buffer[at++] > 127)
      ;
    return buffer.subarray(from, at);
  };
  while (at < buffer.length) {
    const tag = Number(varints(next())[0]), field = tag >> 3, kind = tag & 7;
    let value;
    if (kind === 0) {
      value = next();
    } else {
      const length = kind === 1 ? 8 : kind === 5 ? 4 : Number(varints(next())[0]);
      value = buffer.subarray(at, at + length);
      at += length;
    }
    fields.set(field, [...fields.get(field) ?? [], value]);
  }
  return fields;
}

const whole = (fields, field) => Buffer.concat(fields.get(field) ?? []);

// ---- The worker of the UI ------------------------------------------------------------

process.type = "renderer"; // a browser's process, not node's own
globalThis.self = globalThis;
globalThis.location = { href: "file:///" };
globalThis.WorkerGlobalScope = class {};
globalThis.XMLHttpRequest = class {
  open(_, name) { this.response = fs.readFileSync(path.join(folder, path.basename(name))); }
  send() {}
};
console.warn = () => {}; // its log
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));

let answers;
const port = { postMessage: data => answers.push(...message(Buffer.from(data)).get(1).map(message)) };
onmessage({ data: port });

// Field RESULT of the answers to a request with FIELD, messages each.
let sequence = 0;
function ask(method, result, field, argument) {
  answers = [];
  port.onmessage({ data: new Uint8Array(bytes(1, Buffer.concat([number(1, ++sequence), number(2, method),
    field ? bytes(field, argument) : Buffer.alloc(0)]))) });
  for (const answer of answers)
    if (answer.has(5))
      fail(whole(answer, 5));
  const results = answers.map(answer => message(whole(answer, result)));
  for (const one of results)
    if (one.has(2) && result !== 212) // an error; of the end a number of bytes
      fail(whole(one, 2));
  return results;
}

function cells(batch) {
  const numbers = varints(whole(batch, 2)), floats = whole(batch, 3), texts = whole(batch, 5).toString().split("\0");
  let float = 0;
  return varints(whole(batch, 1)).map(Number).map(kind => kind === NULL ? "-" : kind === NUMBER ? numbers.shift()
    : kind === FLOAT ? floats.readDoubleLE(8 * float++) : kind === TEXT ? texts.shift() : "?");
}

function query(sql) {
  const results = ask(QUERY, 203, 103, bytes(1, sql));
  const columns = results[0].get(1).length, all = results.flatMap(one => one.get(3) ?? []).map(message).flatMap(cells);
  for (let at = 0; at < all.length; at += columns)
    console.log(all.slice(at, at + columns).join("\t"));
}

// The worker is ready once its promises are.
setImmediate(() => {
  const file = fs.readFileSync(trace);
  for (let at = 0; at < file.length; at += PIECE)
    ask(APPEND, 201, 101, file.subarray(at, at + PIECE));
  ask(FINALIZE, 212);
  for (const sql of ["select name, idx, value from stats where severity != 'info' and value != 0", ...queries])
    query(sql);
});
