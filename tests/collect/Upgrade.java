import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Sends two events with Java's HttpClient, which asks for HTTP/2 by `Upgrade: h2c`. */
class Upgrade {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newHttpClient();
        for (var id : new String[] {"java-1", "java-2"}) {
            var event = "{\"userId\":\"u\",\"event\":\"Hello\",\"messageId\":\"" + id + "\"}";
            var request = HttpRequest.newBuilder(URI.create(args[0] + "/v1/track"))
                .header("Authorization", args[1])
                .POST(HttpRequest.BodyPublishers.ofString(event))
                .build();
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode());
        }
    }
}
