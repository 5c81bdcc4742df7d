-- Asks Tidegate about a request, and notes what it says in variables of the request:
-- txn.asked (the status, 0 if there was no answer), txn.retry_after, txn.problem.

local door = "http://127.0.0.1:8080/v1/forward-auth/haproxy"

core.register_action("ask_tidegate", { "http-req" }, function(txn)
    local headers = {
        ["x-forwarded-for"] = { txn.f:src() },
        ["x-original-uri"] = { txn.f:pathq() },
        ["x-original-method"] = { txn.f:method() },
    }
    local tenant = txn.http:req_get_headers()["x-tenant"]
    if tenant then
        headers["x-tenant"] = { tenant[0] }
    end

    local answer = core.httpclient():get({ url = door, headers = headers, timeout = 100 })
    local status = answer and answer.status or 0
    local media_type = answer and answer.headers and answer.headers["content-type"]
    if status ~= 200 and not (media_type and media_type[0] == "application/problem+json") then
        status = 0 -- HAProxy's own 503, because nobody is there
    end
    txn:set_var("txn.asked", status)
    if status == 429 then
        txn:set_var("txn.problem", answer.body)
        local retry_after = answer.headers["retry-after"]
        if retry_after then
            txn:set_var("txn.retry_after", retry_after[0])
        end
    end
end, 0)
