// Lambda's Node runtime for one invocation: event on the standard input, answer in a file.
// Source: https://docs.aws.amazon.com/lambda/latest/dg/nodejs-handler.html, nodejs-context.html there (2026-11)
"use strict";
const fs = require("fs");
const https = require("https");
const path = require("path");

const said = process.env;

const event = JSON.parse(fs.readFileSync(0, "utf8"));

// The handlers of the CDK drop the port of a ResponseURL, since those of AWS have none.
const answers = event && event.ResponseURL ? new URL(event.ResponseURL) : {};
const connect = https.globalAgent.createConnection;
https.globalAgent.createConnection = function (options, done) {
  const meant = options.host === answers.hostname && Number(options.port) === 443;
  return connect.call(this, meant ? { ...options, port: Number(answers.port) } : options, done);
};

const context = {
  functionName: said.AWS_LAMBDA_FUNCTION_NAME,
  functionVersion: said.AWS_LAMBDA_FUNCTION_VERSION,
  invokedFunctionArn: said.REHEARSAL_FUNCTION_ARN,
  memoryLimitInMB: said.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
  awsRequestId: said.REHEARSAL_REQUEST_ID,
  logGroupName: said.AWS_LAMBDA_LOG_GROUP_NAME,
  logStreamName: said.AWS_LAMBDA_LOG_STREAM_NAME,
  callbackWaitsForEmptyEventLoop: true,
  getRemainingTimeInMillis: () => Math.max(Number(said.REHEARSAL_DEADLINE) * 1000 - Date.now(), 0),
};

async function run() {
  const dot = said._HANDLER.lastIndexOf(".");
  const module = require(path.join(said.LAMBDA_TASK_ROOT, said._HANDLER.slice(0, dot)));
  return module[said._HANDLER.slice(dot + 1)](event, context);
}

run()
  .then((answer) => ({ answer: answer === undefined ? null : answer }))
  .catch((error) => {
    console.error(error);
    const trace = String(error.stack).split("\n");
    return { error: { errorType: error.name, errorMessage: error.message, trace } };
  })
  .then((told) => {
    fs.writeFileSync(said.REHEARSAL_ANSWER, JSON.stringify(told));
    process.exit(0);
  });
